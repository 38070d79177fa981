"""Whole runs against servers that speak chat completions in their own way."""

import itertools
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from activities.providers import anthropic_wire
from activities.providers.base import ModelRequest
from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from activities.toolbox import basic_tools
from tests.support.fake_llm import FakeLLM, Reply, Request, json_error, openai_chunks, sse_file
from tests.support.inline_runs import Bench, bench
from tests.support.wire_validators import validate_anthropic, validate_chat
from zidane_core import tool
from zidane_core.content import ToolCallBlock, ToolResultBlock
from zidane_core.context.request_copy import Fit, request_copy
from zidane_core.context.wire_view import WireView
from zidane_core.errors import AgentBudgetExceededError, AgentError
from zidane_core.runs import RunResult
from zidane_core.session import Turn

COMPAT = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "openai_compat")
USAGE = {"prompt_tokens": 9, "completion_tokens": 9}


@tool(read_only=True)
async def look() -> str:
    """Return 2 KB."""
    return "x" * 2048


@tool
async def needs(word: str) -> str:
    """Say the word."""
    return f"said {word}"


@tool
async def plain() -> str:
    """Say nothing of note."""
    return "plain"


@asynccontextmanager
async def against(llm: FakeLLM, tmp_path: Path) -> AsyncGenerator[Bench]:
    """Open a bench whose model is the compatible server."""
    provider = OpenAIProvider(COMPAT, api_key=None, base_url=llm.openai_url)
    tools = [*basic_tools, look, needs, plain]
    async with bench(tmp_path, [], system="Be brief.", tools=tools) as made:
        made.model = cast(Any, provider)
        yield made
    await provider.close()


def asks(
    name: str, arguments: Any, call_id: str = "c", usage: dict[str, int] | None = USAGE
) -> Reply:
    """Return an answer with one call, its arguments as they are given."""
    function = {"name": name, "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": call_id, "function": function}]}
    return openai_chunks(delta, finish_reason="tool_calls", usage=usage)


def done() -> Reply:
    return openai_chunks({"content": "done"}, usage=USAGE)


async def path_of(made: Bench, result: RunResult) -> Sequence[Turn]:
    return await made.store.path(result.session_id, result.head)


def results_in(body: dict[str, Any]) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


async def test_a_token_budget_stops_a_run_whose_server_counts_nothing(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-07 a: estimated, marked as estimates, never zero."""
    fake_llm.otherwise = lambda request: asks(
        "look", "{}", f"call-{len(request.body['messages'])}x", usage=None
    )
    async with against(fake_llm, tmp_path) as made:
        with pytest.raises(AgentBudgetExceededError) as stopped:
            await made.run(behavior={"max_total_tokens": 5_000, "max_turns": 50})
    result = RunResult.model_validate(stopped.value.details["result"])
    usages = result.stats.turn_usage or ()
    assert len(usages) == len(fake_llm.requests)
    assert all(usage.estimated and usage.input and usage.output for usage in usages)
    grown = [later.input - sooner.input for sooner, later in itertools.pairwise(usages)]
    assert all(500 < tokens < 600 for tokens in grown)
    assert 5_000 < result.stats.total_in + result.stats.total_out < 10_000


async def test_usage_in_a_last_chunk_without_choices_is_exact(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-07 b."""
    fake_llm.reply(openai_chunks({"content": "hi"}, usage=USAGE))
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
    assert result.stats.turn_usage is not None
    (usage,) = result.stats.turn_usage
    assert (usage.input, usage.output, usage.estimated) == (9, 9, False)


async def test_a_server_without_stream_options_is_asked_for_them_once_in_a_session(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-07 c: the retry is no attempt of the loop's and is remembered."""

    def strict(request: Request) -> Reply:
        if "stream_options" in request.body:
            return json_error(400, {"error": {"message": "unknown field stream_options"}})
        return done() if results_in(request.body) else asks("plain", "{}")

    fake_llm.otherwise = strict
    async with against(fake_llm, tmp_path) as made:
        result = await made.run(behavior={"retry": {"max_attempts": 1}})
    assert result.text == "done"
    assert ["stream_options" in body for body in fake_llm.bodies] == [True, False, False]


EDITS = [{"old_string": "x", "new_string": "y"}]
WHOLE = json.dumps({"path": "a.txt", "edits": EDITS})
INNER = json.dumps({"path": "a.txt", "edits": json.dumps(EDITS)})


@pytest.mark.parametrize("raw", [INNER, json.dumps(WHOLE)], ids=["a field", "the whole"])
async def test_arguments_that_are_encoded_twice_run(
    fake_llm: FakeLLM, tmp_path: Path, raw: str
) -> None:
    """K-OPENAI-08: and the next request has them as one object."""
    fake_llm.reply(asks("multi_edit", raw), done())
    async with against(fake_llm, tmp_path) as made:
        (made.workspace / "a.txt").write_text("x")
        result = await made.run()
        assert (made.workspace / "a.txt").read_text() == "y"
    assert result.text == "done"
    assert validate_chat(fake_llm.bodies[1]) == []


async def test_a_string_that_looks_like_json_is_written_as_it_is(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-08."""
    fake_llm.reply(asks("write_file", '{"path":"c.json","content":"[1,2]"}'), done())
    async with against(fake_llm, tmp_path) as made:
        await made.run()
        assert (made.workspace / "c.json").read_bytes() == b"[1,2]"


async def test_a_string_that_is_no_list_is_an_error_that_names_the_field(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-08."""
    fake_llm.reply(asks("multi_edit", '{"path":"a.txt","edits":"no list"}'), done())
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
    assert result.text == "done"
    assert "edits" in results_in(fake_llm.bodies[1])[0]


BAD = ['{"{"path":', "null", "[1]", '"x"', "7", '{"a":' * 40_000]


@pytest.mark.parametrize("raw", BAD, ids=["broken", "null", "list", "string", "number", "200 KB"])
async def test_arguments_that_are_no_object_are_an_error_and_the_run_goes_on(
    fake_llm: FakeLLM, tmp_path: Path, raw: str
) -> None:
    """K-OPENAI-09: the next request has valid arguments and a short preview."""
    fake_llm.reply(asks("needs", raw), done())
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
        turns = await path_of(made, result)
    assert result.text == "done"
    body = fake_llm.bodies[1]
    assert validate_chat(body) == []
    (said,) = results_in(body)
    assert raw[:60] in said
    assert len(said) < 1_100
    (answer,) = (b for turn in turns for b in turn.content if isinstance(b, ToolResultBlock))
    assert answer.is_error


@pytest.mark.parametrize(
    ("name", "said"), [("plain", "plain"), ("needs", "word")], ids=["needs none", "needs one"]
)
async def test_empty_arguments_run_where_none_are_needed(
    fake_llm: FakeLLM, tmp_path: Path, name: str, said: str
) -> None:
    """K-OPENAI-09."""
    fake_llm.reply(asks(name, ""), done())
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
    assert result.text == "done"
    (output,) = results_in(fake_llm.bodies[1])
    assert said in output
    assert (output == said) == (name == "plain")


async def test_ids_that_come_back_every_turn_are_told_apart_for_ever(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-05: each result beside its call, then the same history for Anthropic."""
    for number in range(1, 5):
        arguments = json.dumps({"command": f"echo {number}"})
        fake_llm.reply(asks("shell", arguments, "shell:0"))
    fake_llm.reply(done())
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
        turns = await path_of(made, result)
    last = fake_llm.bodies[-1]["messages"]
    for body in fake_llm.bodies:
        assert validate_chat(body) == []
        # What was sent once is sent again as it was, so that the prompt cache keeps hitting.
        assert last[: len(body["messages"])] == body["messages"]
    asked = [
        (each["id"], each["function"]["arguments"])
        for message in last
        for each in message.get("tool_calls", ())
    ]
    answered = {m["tool_call_id"]: m["content"] for m in last if m["role"] == "tool"}
    assert [f"echo {number}" in arguments for number, (_, arguments) in enumerate(asked, 1)] == [
        True
    ] * 4
    assert [str(n) in answered[call_id] for n, (call_id, _) in enumerate(asked, 1)] == [True] * 4
    assert len({call_id for call_id, _ in asked}) == 4
    first, again = _anthropic_ids(turns), _anthropic_ids(turns[:-1])
    assert len(set(first)) == 4
    assert first == again


def _anthropic_ids(turns: Sequence[Turn]) -> list[str]:
    view = WireView()
    view.extend(turns)
    fit = Fit(provider="anthropic", model="claude-sonnet-4-5")
    request = ModelRequest(
        model="claude-sonnet-4-5", system="", messages=request_copy(view.messages(), fit)
    )
    body = anthropic_wire.build_body(request)
    assert validate_anthropic(body) == []
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block["id"] for block in blocks if block["type"] == "tool_use"]


@pytest.mark.parametrize("call_id", ["call_1", ""])
async def test_two_calls_that_share_an_id_both_run(
    fake_llm: FakeLLM, tmp_path: Path, call_id: str
) -> None:
    """K-OPENAI-06: the results stand in the order of the calls."""
    fragments = [
        {
            "index": index,
            "id": call_id,
            "function": {"name": "read_file", "arguments": json.dumps({"path": path})},
        }
        for index, path in enumerate(("a.txt", "b.txt"))
    ]
    fake_llm.reply(
        openai_chunks({"tool_calls": fragments}, finish_reason="tool_calls", usage=USAGE), done()
    )
    async with against(fake_llm, tmp_path) as made:
        for name, text in (("a.txt", "AAA"), ("b.txt", "BBB")):
            (made.workspace / name).write_text(text)
        await made.run()
    body = fake_llm.bodies[1]
    assert validate_chat(body) == []
    outputs = results_in(body)
    assert ["AAA" in outputs[0], "BBB" in outputs[1]] == [True, True]


async def test_an_object_as_arguments_leaves_as_a_string(fake_llm: FakeLLM, tmp_path: Path) -> None:
    """K-OPENAI-02: the server answers 400 to anything else."""

    def strict(request: Request) -> Reply:
        calls = [c for m in request.body["messages"] for c in m.get("tool_calls", ())]
        if not all(isinstance(each["function"]["arguments"], str) for each in calls):
            return json_error(400, {"error": {"message": "arguments must be a string"}})
        return done() if calls else asks("shell", {"command": "echo AB"})

    fake_llm.otherwise = strict
    async with against(fake_llm, tmp_path) as made:
        result = await made.run()
        turns = await path_of(made, result)
    assert result.text == "done"
    asked = [b for turn in turns for b in turn.content if isinstance(b, ToolCallBlock)]
    assert [block.input for block in asked] == [{"command": "echo AB"}]
    sent = fake_llm.bodies[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert sent == '{"command":"echo AB"}'
    assert "AB" in results_in(fake_llm.bodies[1])[0]


async def test_an_overload_inside_a_stream_is_tried_again_and_leaves_nothing(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-10: what had come of the first attempt is not in the conversation."""
    fake_llm.reply(sse_file("K-OPENAI-10-error-in-stream.sse"), done())
    async with against(fake_llm, tmp_path) as made:
        result = await made.run(behavior={"retry": {"max_attempts": 2, "initial_delay_ms": 1}})
        turns = await path_of(made, result)
    assert result.text == "done"
    assert fake_llm.bodies[0]["messages"] == fake_llm.bodies[1]["messages"]
    assert [turn.text for turn in turns] == ["go", "done"]


async def test_a_key_that_is_refused_inside_a_stream_is_not_tried_again(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """K-OPENAI-10, variation: final and typed."""
    error = {"type": "invalid_request_error", "code": "invalid_api_key", "message": "bad key"}
    fake_llm.reply(Reply(f"data: {json.dumps({'error': error})}\n\n".encode()))
    async with against(fake_llm, tmp_path) as made:
        with pytest.raises(AgentError) as ended:
            await made.run(on_provider_failure="fail", behavior={"retry": {"max_attempts": 3}})
    assert ended.value.to_dict()["type"] == "AgentProviderError"
    assert len(fake_llm.requests) == 1
