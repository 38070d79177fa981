"""The strict validators find what they are for: a healthy request, spoilt in one place."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.responses_validator import validate_responses
from tests.support.wire_validators import validate_anthropic, validate_chat

PNG = "aGVsbG8="
Body = dict[str, Any]
Spoil = Callable[[Body], object]


def call(call_id: str, **fields: Any) -> Body:
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {}, **fields}


def result(call_id: str, content: Any = "ok", **fields: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def said(text: str) -> Body:
    return {"type": "text", "text": text}


def image(media_type: str = "image/png", data: str = PNG) -> Body:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


MARK: Body = {"type": "ephemeral"}
SEARCH: Body = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Body = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
ANTHROPIC: Body = {
    "model": "m",
    "max_tokens": 4096,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "system": [{**said("Be brief."), "cache_control": MARK}],
    "tools": [
        {"name": "read", "input_schema": {"type": "object"}, "cache_control": MARK},
        {"type": "web_search_20260209", "name": "web_search"},
    ],
    "messages": [
        {"role": "user", "content": [said("go"), image()]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xx"},
                SEARCH,
                FOUND,
                call("a"),
                call("b"),
            ],
        },
        {
            "role": "user",
            "content": [
                result("a", [said("seen"), image()]),
                result("b", is_error=True),
                {**said("and?"), "cache_control": MARK},
            ],
        },
    ],
}


SPOILT_ANTHROPIC: dict[str, tuple[Spoil, str]] = {
    "no message": (lambda b: b.update(messages=[]), "no message"),
    "assistant first": (lambda b: b["messages"].pop(0), "first message"),
    "two users": (
        lambda b: b["messages"].append({"role": "user", "content": [said("x")]}),
        "two user messages in a row",
    ),
    "assistant last": (
        lambda b: b["messages"].append({"role": "assistant", "content": [said("x")]}),
        "last message is the assistant's",
    ),
    "a role of its own": (lambda b: b["messages"][0].update(role="tool"), "role 'tool'"),
    "no content": (lambda b: b["messages"][0].update(content=[]), "empty"),
    "no result": (lambda b: b["messages"][2]["content"].pop(1), "'b' has 0 results"),
    "two results": (
        lambda b: b["messages"][2]["content"].insert(0, result("a")),
        "'a' has 2 results",
    ),
    "open at the end": (lambda b: b["messages"].pop(), "'a' has no result"),
    "orphan result": (
        lambda b: b["messages"][2]["content"].insert(0, result("zz")),
        "orphan result 'zz'",
    ),
    "text before results": (
        lambda b: b["messages"][2]["content"].insert(0, said("x")),
        "do not stand first",
    ),
    "id twice": (lambda b: b["messages"][1]["content"].append(call("a")), "used twice"),
    "id form": (lambda b: b["messages"][1]["content"].append(call("a:0")), "'a:0' has a wrong"),
    "empty id": (lambda b: b["messages"][1]["content"].append(call("")), "'' has a wrong form"),
    "long id": (
        lambda b: b["messages"][1]["content"].append(call("a" * 65)),
        "more than 64 characters",
    ),
    "tool name": (
        lambda b: b["messages"][1]["content"][4].update(name="x" * 65),
        "tool name",
    ),
    "offered name": (lambda b: b["tools"][0].update(name="a.b"), "tool name 'a.b'"),
    "one name twice": (lambda b: b["tools"].append(b["tools"][0]), "two tools of one name"),
    "schema": (lambda b: b["tools"][0].update(input_schema={}), "the schema of tool"),
    "input": (lambda b: b["messages"][1]["content"][4].update(input="{}"), "not an object"),
    "empty text": (lambda b: b["messages"][0]["content"].append(said("")), "visible"),
    "blank text": (lambda b: b["messages"][0]["content"].append(said(" \n")), "visible"),
    "empty system": (lambda b: b["system"][0].update(text=""), "system.0"),
    "blank text in a result": (
        lambda b: b["messages"][2]["content"][0]["content"].append(said("")),
        "messages.2.content.0.content.2",
    ),
    "picture in an error": (
        lambda b: b["messages"][2]["content"][0].update(is_error=True),
        "may hold text only",
    ),
    "unsigned thinking": (
        lambda b: b["messages"][1]["content"][0].update(signature=""),
        "signature",
    ),
    "redacted without data": (lambda b: b["messages"][1]["content"][1].update(data=""), "data"),
    "thinking of a user": (
        lambda b: b["messages"][0]["content"].append(b["messages"][1]["content"][0]),
        "a thinking block in a message of the user",
    ),
    "picture of an assistant": (
        lambda b: b["messages"][1]["content"].append(image()),
        "a image block in a message of the assistant",
    ),
    "media type": (
        lambda b: b["messages"][0]["content"].append(image("image/tiff")),
        "media type 'image/tiff'",
    ),
    "no base64": (lambda b: b["messages"][0]["content"].append(image(data="###")), "base64"),
    "no bytes": (lambda b: b["messages"][0]["content"].append(image(data="")), "without a byte"),
    "much media": (
        lambda b: b["messages"][0]["content"].extend(image() for _ in range(99)),
        "101 images and documents, 100 are allowed",
    ),
    "unknown block": (
        lambda b: b["messages"][0]["content"].append({"type": "video"}),
        "unknown block 'video'",
    ),
    "five marks": (
        lambda b: [block.update(cache_control=MARK) for block in b["messages"][2]["content"]],
        "5 cache marks",
    ),
    "two times to live": (
        lambda b: b["system"][0].update(cache_control={**MARK, "ttl": "1h"}),
        "cache times to live",
    ),
    "mark on reasoning": (
        lambda b: b["messages"][1]["content"][0].update(cache_control=MARK),
        "mark on reasoning",
    ),
    "open server call": (lambda b: b["messages"][1]["content"].remove(FOUND), "have no result"),
    "orphan server result": (
        lambda b: b["messages"][1]["content"].remove(SEARCH),
        "has no call before it",
    ),
    "surrogate": (lambda b: b["messages"][0]["content"].append(said("\ud83d")), "UTF-8"),
    "no number": (lambda b: b.update(temperature=float("nan")), "not JSON"),
    "budget": (lambda b: b["thinking"].update(budget_tokens=4096), "budget_tokens 4096"),
    "no cap": (lambda b: b.pop("max_tokens"), "max_tokens is missing"),
}


def test_healthy_requests_have_no_violation():
    assert validate_anthropic(ANTHROPIC) == []
    paused = {**ANTHROPIC, "messages": ANTHROPIC["messages"][:1]}
    paused["messages"] = [*paused["messages"], {"role": "assistant", "content": [SEARCH]}]
    assert validate_anthropic(paused) == []
    assert validate_chat(CHAT) == []
    assert validate_responses(RESPONSES) == []


@pytest.mark.parametrize("name", SPOILT_ANTHROPIC)
def test_each_violation_of_anthropics_wire_is_found(name: str):
    spoil, words = SPOILT_ANTHROPIC[name]
    body = copy.deepcopy(ANTHROPIC)
    spoil(body)
    assert any(words in violation for violation in validate_anthropic(body)), words


def chat_call(call_id: str, **function: Any) -> Body:
    named = {"name": "read", "arguments": "{}", **function}
    return {"id": call_id, "type": "function", "function": named}


PICTURE: Body = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
PDF: Body = {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}
CHAT: Body = {
    "model": "m",
    "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [said("go"), PICTURE, {"type": "file", "file": PDF}]},
        {"role": "assistant", "content": None, "tool_calls": [chat_call("a"), chat_call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": ""},
        {"role": "tool", "tool_call_id": "b", "content": "ok"},
        {"role": "assistant", "content": "well"},
        {"role": "user", "content": "and?"},
    ],
}
SPOILT_CHAT: dict[str, tuple[Spoil, str]] = {
    "no message": (lambda b: b.update(messages=[]), "no message"),
    "no result": (lambda b: b["messages"].pop(4), "'b' has 0 results"),
    "result elsewhere": (
        lambda b: b["messages"].append(b["messages"].pop(4)),
        "orphan result 'b'",
    ),
    "open at the end": (
        lambda b: b["messages"].append({"role": "assistant", "tool_calls": [chat_call("c")]}),
        "the end: call 'c' has 0 results",
    ),
    "id twice": (
        lambda b: b["messages"].insert(5, {**b["messages"][2]}),
        "id 'a' is used twice",
    ),
    "long id": (
        lambda b: b["messages"][2]["tool_calls"].append(chat_call("a" * 41)),
        "more than 40",
    ),
    "object arguments": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments={}),
        "no string",
    ),
    "arguments of a list": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments="[1]"),
        "no JSON object",
    ),
    "surrogate in arguments": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(
            arguments='{"a": "\\ud83d"}'
        ),
        "UTF-8",
    ),
    "tool name": (
        lambda b: b["messages"][2]["tool_calls"][0]["function"].update(name="a b"),
        "of 'a b'",
    ),
    "empty text": (lambda b: b["messages"][6].update(content=""), "visible"),
    "assistant of nothing": (lambda b: b["messages"][5].update(content=None), "visible"),
    "no calls": (lambda b: b["messages"][5].update(tool_calls=[]), "empty list of calls"),
    "picture of an assistant": (lambda b: b["messages"][5].update(content=[PICTURE]), "only text"),
    "picture in a result": (lambda b: b["messages"][4].update(content=[PICTURE]), "only text"),
    "picture form": (
        lambda b: b["messages"][1]["content"].append(
            {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,aGVsbG8="}}
        ),
        "media type 'image/tiff'",
    ),
    "file form": (lambda b: b["messages"][1]["content"][2].update(file={"file_data": "x"}), "file"),
    "assistant last": (lambda b: b["messages"].pop(), "last message is the assistant's"),
    "system later": (
        lambda b: b["messages"].append({"role": "system", "content": "x"}),
        "does not stand first",
    ),
    "unknown field": (
        lambda b: b["messages"][5].update(reasoning_content="hm"),
        "unknown fields ['reasoning_content']",
    ),
    "surrogate": (lambda b: b["messages"][6].update(content="\udca9"), "UTF-8"),
}


@pytest.mark.parametrize("name", SPOILT_CHAT)
def test_each_violation_of_the_chat_wire_is_found(name: str):
    spoil, words = SPOILT_CHAT[name]
    body = copy.deepcopy(CHAT)
    spoil(body)
    assert any(words in violation for violation in validate_chat(body)), words


def test_a_server_that_takes_reasoning_back_may_be_sent_it():
    body = copy.deepcopy(CHAT)
    body["messages"][5].update(reasoning_content="hm")
    assert validate_chat(body, reasoning_keys=True) == []


THOUGHT: Body = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xx"}


def item_call(call_id: str, **fields: Any) -> Body:
    return {
        "type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}", **fields
    }  # fmt: skip


def output(call_id: str, value: Any = "ok") -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


INPUT_IMAGE: Body = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
RESPONSES: Body = {
    "model": "m",
    "store": False,
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}, INPUT_IMAGE]},
        THOUGHT,
        item_call("a"),
        item_call("b"),
        output("a"),
        output("b", [{"type": "input_text", "text": "x"}, INPUT_IMAGE]),
        {"role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
        {"role": "user", "content": "and?"},
    ],
}
SPOILT_RESPONSES: dict[str, tuple[Spoil, str]] = {
    "no item": (lambda b: b.update(input=[]), "no input item"),
    "no output": (lambda b: b["input"].pop(5), "'b' has 0 results"),
    "output elsewhere": (lambda b: b["input"].append(b["input"].pop(5)), "orphan result 'b'"),
    "two outputs": (lambda b: b["input"].insert(5, output("a")), "'a' has 2 results"),
    "open at the end": (lambda b: b["input"].append(item_call("c")), "'c' has 0 results"),
    "id twice": (lambda b: b["input"].insert(3, item_call("a")), "id 'a' is used twice"),
    "long id": (lambda b: b["input"].insert(3, item_call("a" * 65)), "more than 64"),
    "item id twice": (lambda b: b["input"].insert(1, THOUGHT), "id 'rs_1' is used twice"),
    "object arguments": (lambda b: b["input"][2].update(arguments={}), "no string"),
    "tool name": (lambda b: b["input"][2].update(name=""), "tool name ''"),
    "orphan reasoning": (
        lambda b: b["input"].insert(6, {**THOUGHT, "id": "rs_2"}) or b["input"].pop(7),
        "not followed by its item",
    ),
    "reasoning last": (
        lambda b: b["input"].append({**THOUGHT, "id": "rs_2"}),
        "not followed by its item",
    ),
    "reasoning that is not sealed": (
        lambda b: b["input"][1].update(encrypted_content=None),
        "without encrypted content",
    ),
    "assistant last": (lambda b: b["input"].pop(), "last item is the assistant's"),
    "empty text": (lambda b: b["input"][7].update(content=" "), "visible"),
    "input in an answer": (
        lambda b: b["input"][6].update(content=[{"type": "input_text", "text": "x"}]),
        "a input_text part in a message of the assistant",
    ),
    "media type": (
        lambda b: b["input"][0]["content"][1].update(image_url="data:image/bmp;base64,aGk="),
        "media type 'image/bmp'",
    ),
    "empty instructions": (lambda b: b.update(instructions=""), "instructions"),
    "unknown item": (lambda b: b["input"].append({"type": "what", "role": "user"}), "'what'"),
    "surrogate": (lambda b: b["input"][7].update(content="\udca9"), "UTF-8"),
}


@pytest.mark.parametrize("name", SPOILT_RESPONSES)
def test_each_violation_of_the_responses_wire_is_found(name: str):
    spoil, words = SPOILT_RESPONSES[name]
    body = copy.deepcopy(RESPONSES)
    spoil(body)
    assert any(words in violation for violation in validate_responses(body)), words
