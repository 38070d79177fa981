"""Core content to the JSON of Responses, against whole bodies; no network."""

from typing import Any

import pytest

from activities.providers.openai_limits import Limits
from activities.providers.openai_responses_items import wire_id
from activities.providers.openai_responses_wire import build_body
from tests.support.model_requests import assistant, call, model_request, result, tool_spec, user
from tests.support.responses_events import reasoning
from tests.support.responses_validator import validate_responses
from zidane_core.content import (
    AudioBlock,
    CompactSummaryBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    ResultContent,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from zidane_core.models import ModelInfo
from zidane_core.values import Json

PICTURE = ImageBlock(media_type="image/png", data="aGk=")
WIRE_PICTURE = {
    "type": "input_image",
    "detail": "auto",
    "image_url": "data:image/png;base64,aGk=",
}
SEARCH: Json = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"q": "x"},
}


def _body(*messages: Any, limits: Limits | None = None, **fields: Any) -> dict[str, Any]:
    return build_body(model_request(*messages, **fields), producer="openai", limits=limits)


def _input(*messages: Any, **fields: Any) -> list[dict[str, Any]]:
    body = _body(*messages, **fields)
    assert validate_responses(body) == []
    return body["input"]


def thought(number: int, *, sealed: str | None = "c2VhbGVk") -> ProviderReasoningBlock:
    item = reasoning(item_id=f"rs_{number}", sealed=sealed)
    return ProviderReasoningBlock(producer="openai", model="fake-model", details=({**item},))


def said(text: str, signature: str | None, *, producer: str = "openai") -> TextBlock:
    return TextBlock(text=text, signature=signature, signature_producer=producer)


def test_a_whole_request() -> None:
    """PROV-13, TOOL-05, LOOP-12, THNK-01: foreign signatures stay here."""
    signed = ToolCallBlock(
        id="call_1",
        name="read_file",
        input={"path": "ä"},
        signature="fc_1",
        signature_producer="openai",
    )
    body = _body(
        user("hi", PICTURE),
        assistant(
            ThinkingBlock(text="Hm.", signature="sig", signature_producer="anthropic"),
            thought(1),
            said("Let me look.", '{"id":"msg_1","phase":"commentary"}'),
            signed,
        ),
        user(result("call_1", "AAA"), "and now?"),
        model="gpt-5.1",
        system="Be brief.",
        tools=(tool_spec("read_file", alias="Read", description="Reads."), tool_spec("glob")),
        max_tokens=100,
        thinking="high",
    )
    schema = {"type": "object"}
    assert body == {
        "model": "gpt-5.1",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
        "max_output_tokens": 100,
        "tools": [
            {
                "type": "function",
                "name": "Read",
                "description": "Reads.",
                "parameters": schema,
                "strict": False,
            },
            {"type": "function", "name": "glob", "parameters": schema, "strict": False},
        ],
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}, WIRE_PICTURE],
            },
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"},
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
            },
            {
                "id": "fc_1",
                "type": "function_call",
                "status": "completed",
                "call_id": "call_1",
                "name": "Read",
                "arguments": '{"path":"ä"}',
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "AAA"},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "and now?"}],
            },
        ],
    }
    assert validate_responses(body) == []


def test_what_is_not_asked_for_is_left_out() -> None:
    """LOOP-12, RUN-18."""
    body = _body(info=ModelInfo(reasoning=False), model_options={"fast": True, "api": "responses"})
    assert set(body) == {"model", "input", "stream", "store"}


def test_options_go_where_the_service_wants_them() -> None:
    """RUN-18."""
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "prompt_cache_key": "session-1",
        "verbosity": "low",
        "include": ["web_search_call.action.sources"],
        "server_tools": [{"type": "web_search"}],
        "reasoning_summary": "detailed",
    }
    body = _body(tools=(tool_spec("shell"),), thinking="low", model_options=options)
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert body["text"] == {"verbosity": "low"}
    assert body["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert body["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    plain = ("temperature", "top_p", "parallel_tool_calls", "service_tier", "prompt_cache_key")
    assert {key: body[key] for key in plain} == {key: options[key] for key in plain}


@pytest.mark.parametrize(
    ("level", "model", "field"),
    [
        ("minimal", "gpt-5", {"effort": "minimal", "summary": "auto"}),
        ("max", "gpt-5.6", {"effort": "max", "summary": "auto"}),
        ("adaptive", "gpt-5", {"summary": "auto"}),
        ("off", "gpt-5", None),
        ("off", "o3", None),
        ("off", "gpt-5.1", {"effort": "none"}),
        ("off", "gpt-5.1-2025-11-13", {"effort": "none"}),
        ("off", "gpt-6-astra", {"effort": "none"}),
        ("off", "gpt-5.1-codex-max", None),
        ("off", "gpt-5.2-pro", None),
    ],
)
def test_the_thinking_level_becomes_an_effort(
    level: str, model: str, field: dict[str, str] | None
) -> None:
    """THNK-01, RUN-05: off is sent only where it is known to be taken."""
    body = _body(thinking=level, model=model)
    assert body.get("reasoning") == field
    assert body["include"] == ["reasoning.encrypted_content"]


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    """THNK-01, CAT-02."""
    body = _body(thinking="high", info=ModelInfo(reasoning=False))
    assert "reasoning" not in body
    assert "include" not in body


@pytest.mark.parametrize(
    ("limits", "reasons", "included"),
    [
        (Limits(has_summary=False), {"effort": "high"}, True),
        (Limits(efforts=("low", "medium")), {"effort": "medium", "summary": "auto"}, True),
        (Limits(has_reasoning=False), None, True),
        (Limits(has_encrypted=False), {"effort": "high", "summary": "auto"}, False),
    ],
)
def test_what_a_model_refused_is_left_out(
    limits: Limits, reasons: dict[str, str] | None, *, included: bool
) -> None:
    body = _body(thinking="high", limits=limits)
    assert body.get("reasoning") == reasons
    assert ("include" in body) is included


def test_the_one_tool_that_must_be_called_has_its_shown_name() -> None:
    """DEC-01, TOOL-05."""
    body = _body(tools=(tool_spec("shell", alias="Sh"),), force_tool="shell")
    assert body["tool_choice"] == {"type": "function", "name": "Sh"}


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, False),
    ],
)
def test_a_schema_is_strict_where_that_changes_no_answer(
    schema: dict[str, Any], *, is_strict: bool
) -> None:
    """OUT-02."""
    sent = {**schema, "additionalProperties": False} if is_strict else schema
    assert _body(output_schema=schema)["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": sent, "strict": is_strict}
    }


def test_pictures_and_files_stay_inside_the_result_of_their_tool() -> None:
    """PART-05, PART-07."""
    pdf = DocumentBlock(media_type="application/pdf", data="aGk=", name="a.pdf")
    output = (TextBlock(text="see"), PICTURE, pdf)
    items = _input(
        user("go"),
        assistant(call("c1", "shell"), call("c2", "shell")),
        user(ToolResultBlock(call_id="c1", output=output), result("c2", "B"), "steer"),
    )
    file = {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": "data:application/pdf;base64,aGk=",
    }
    text = {"type": "input_text", "text": "see"}
    assert items[-3:] == [
        {"type": "function_call_output", "call_id": "c1", "output": [text, WIRE_PICTURE, file]},
        {"type": "function_call_output", "call_id": "c2", "output": "B"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "steer"}]},
    ]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (ImageBlock(media_type="image/tiff", data="aGk="), "[image: image/tiff, 4 b64 bytes]"),
        (ImageBlock(media_type="image/png", data="%%"), "[image: image/png, 2 b64 bytes]"),
        (ImageBlock(media_type="image/png", ref="blob-1"), "[image: image/png, ref blob-1]"),
        (AudioBlock(media_type="audio/wav", data="aGk="), "[audio: audio/wav, 4 b64 bytes]"),
        (
            DocumentBlock(media_type="text/plain", data="hi", encoding="text", name="n.txt"),
            "[attachment: n.txt (text/plain)]\nhi",
        ),
    ],
)
def test_what_the_wire_cannot_carry_becomes_text(block: ResultContent, text: str) -> None:
    """PART-05."""
    (item,) = _input(user(block))
    assert item["content"] == [{"type": "input_text", "text": text}]
    output = ToolResultBlock(call_id="c1", output=(TextBlock(text="x"), block))
    items = _input(user("go"), assistant(call("c1", "shell")), user(output))
    assert items[-1]["output"] == f"x\n{text}"


def test_reasoning_that_cannot_be_replayed_takes_the_ids_of_what_it_led_to_along() -> None:
    """PROV-13, THNK-01: the service refuses an id without its reasoning, and takes neither."""
    signed = ToolCallBlock(
        id="c1", name="shell", input={}, signature="fc_1", signature_producer="openai"
    )
    blocks = (thought(1, sealed=None), said("hm", '{"id":"msg_1","phase":"commentary"}'), signed)
    items = _input(user("go"), assistant(*blocks), user(result("c1", "x")))
    assert [item.get("id") for item in items] == [None, None, None, None]
    assert items[1]["phase"] == "commentary"
    without = _input(user("go"), assistant(*blocks[1:]), user(result("c1", "x")))
    assert without == items


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    """K-ANTHROPIC-07 on this wire: the service wants the item that follows."""
    items = _input(user("go"), assistant("Well.", thought(1), thought(2)), user("on"))
    assert [item["type"] for item in items] == ["message", "message", "message"]


def test_an_item_is_sent_once_whatever_the_session_holds() -> None:
    items = _input(
        user("go"),
        assistant(thought(1), said("a", '{"id":"msg_1"}')),
        user("on"),
        assistant(thought(1), said("b", '{"id":"msg_1"}')),
        user("on"),
    )
    assert [item.get("id") for item in items] == [None, "rs_1", "msg_1", None, None, None]


def test_items_of_the_services_own_tools_go_back_as_they_came() -> None:
    """PROV-13: those of other producers and of other wires do not."""
    blocks = (
        ServerToolUseBlock(producer="openai", raw={**SEARCH}),
        ServerToolUseBlock(producer="anthropic", raw={**SEARCH, "id": "ws_2"}),
        ServerToolUseBlock(producer="openai", raw={"type": "server_tool_use", "id": "srv_1"}),
    )
    items = build_body(model_request(user("go"), assistant(*blocks, "Found.")), producer="openai")[
        "input"
    ]
    assert items[1:-1] == [SEARCH]


@pytest.mark.parametrize("sealed", ["c2VhbGVk", None])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_search_that_has_lost_its_reasoning_is_left_out(
    sealed: str | None, *, is_there: bool
) -> None:
    """PROV-13: also when a repair has taken the reasoning out."""
    found = said("Found.", '{"id":"msg_1"}')
    search = ServerToolUseBlock(producer="openai", raw={**SEARCH})
    blocks = ((thought(1, sealed=sealed),) if is_there else ()) + (search, found)
    items = build_body(model_request(user("go"), assistant(*blocks)), producer="openai")["input"]
    kept = ["rs_1", "ws_1", "msg_1"] if is_there and sealed else [None]
    assert [item.get("id") for item in items[1:]] == kept


def test_citations_go_back_to_the_service_that_made_them() -> None:
    """PROV-13."""
    note: Json = {
        "type": "url_citation",
        "url": "https://x.example",
        "start_index": 0,
        "end_index": 2,
    }
    foreign: Json = {"type": "char_location", "cited_text": "x"}
    for producer, expected in (("openai", [note]), ("anthropic", [])):
        block = TextBlock(text="hi", signature_producer=producer, citations=(note, foreign))
        (_, item) = build_body(model_request(user("go"), assistant(block)), producer="openai")[
            "input"
        ]
        assert item["content"][0]["annotations"] == expected


def test_texts_of_one_message_are_one_message_again() -> None:
    refused = said("I can't.", '{"is_refusal":true}')
    items = _input(user("go"), assistant("a", refused, said("b", "not json")), user("on"))
    assert items[1]["content"] == [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "refusal", "refusal": "I can't."},
        {"type": "output_text", "text": "b", "annotations": []},
    ]


def test_broken_surrogates_and_odd_names_do_not_reach_the_wire() -> None:
    """K-PAIRING-02, TOOL-05."""
    items = _input(
        user("ok \ud83d"),
        assistant("\udca9!", call("shell:0", "a b"), call("", "")),
        user(
            ToolResultBlock(call_id="shell:0", output=(TextBlock(text="\ud83d"),)), result("", "x")
        ),
        CompactSummary,
        system="\ud83d.",
    )
    assert items[0]["content"][0]["text"] == "ok \ufffd"
    assert [item["name"] for item in items if item["type"] == "function_call"] == [
        "a_b",
        "unknown",
    ]


CompactSummary = user(CompactSummaryBlock(summary="Before: nothing."))


@pytest.mark.parametrize("call_id", ["call_1", "", "shell:0", "y" * 90, "\ud83d", "ü"])
def test_a_call_id_has_the_form_that_the_service_takes_and_is_always_the_same(call_id: str) -> None:
    """K-OPENAI-05."""
    made = wire_id(call_id)
    assert made == wire_id(call_id)
    assert 0 < len(made) <= 64
    assert made.isascii()
