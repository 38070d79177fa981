"""Core content to Anthropic's JSON, against recorded bodies."""

import base64
from typing import Any

import pytest

from activities.providers.anthropic_wire import build_body, wire_id, wire_messages
from tests.support.model_requests import assistant, call, model_request, result, tool_spec, user
from zidane_core.content import (
    CompactSummaryBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    RedactedThinkingBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    VideoBlock,
)

CACHE = {"type": "ephemeral"}
SIGNED = ThinkingBlock(text="Hm.", signature="sig", signature_producer="anthropic")


def _body(model: str = "claude-sonnet-5-5", **fields: Any) -> dict[str, Any]:
    return build_body(model_request(model=model, **fields))


def test_a_whole_request_has_three_break_points() -> None:
    """CACHE-01, TOOL-05: the last system block, the last tool, the last message block."""
    request = model_request(
        user("hi"),
        assistant(SIGNED, "Let me look.", call("toolu_1x", "read_file", path="a")),
        user(result("toolu_1x", "AAA")),
        model="claude-opus-5-5",
        system="Be brief.",
        tools=(tool_spec("read_file", alias="Read", description="Reads."), tool_spec("glob")),
    )
    assert build_body(request) == {
        "model": "claude-opus-5-5",
        "max_tokens": 64_000,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHE}],
        "tools": [
            {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}},
            {"name": "glob", "input_schema": {"type": "object"}, "cache_control": CACHE},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
                    {"type": "text", "text": "Let me look."},
                    {"type": "tool_use", "id": "toolu_1x", "name": "Read", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1x",
                        "content": "AAA",
                        "cache_control": CACHE,
                    }
                ],
            },
        ],
    }


def test_building_a_body_changes_no_stored_block() -> None:
    """LOOP-15: a raw block that goes back verbatim gets its break point on a copy."""
    raw: dict[str, Any] = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    block = ServerToolUseBlock(producer="anthropic", raw=raw)
    body = build_body(model_request(user("hi"), assistant(block)))
    assert body["messages"][-1]["content"] == [{**raw, "cache_control": CACHE}]
    assert "cache_control" not in block.raw


def test_without_system_and_tools_neither_is_sent() -> None:
    body = _body(system="  ")
    assert "system" not in body
    assert "tools" not in body


@pytest.mark.parametrize(
    "block",
    [
        ThinkingBlock(text="partial"),
        ThinkingBlock(text="partial", signature="", signature_producer="anthropic"),
        ThinkingBlock(text="foreign", signature="sig", signature_producer="gemini"),
        RedactedThinkingBlock(data="x", signature_producer="other"),
        ProviderReasoningBlock(producer="openrouter", reasoning_text="x"),
        ServerToolUseBlock(producer="other", raw={"type": "server_tool_use"}),
        TextBlock(text=" \n"),
    ],
)
def test_what_the_service_refuses_is_left_out(block: Any) -> None:
    """K-ANTHROPIC-07, PROV-13: unsigned or foreign reasoning, empty text."""
    assert wire_messages([user("hi"), assistant(block, "x")])[1]["content"] == [
        {"type": "text", "text": "x"}
    ]
    assert len(wire_messages([user("hi"), assistant(block)])) == 1


def test_signed_reasoning_goes_back_verbatim_even_when_empty() -> None:
    """K-ANTHROPIC-09."""
    empty = ThinkingBlock(text="", signature="ok-2", signature_producer="anthropic")
    redacted = RedactedThinkingBlock(data="zzz", signature_producer="anthropic")
    assert wire_messages([assistant(empty, redacted)])[0]["content"] == [
        {"type": "thinking", "thinking": "", "signature": "ok-2"},
        {"type": "redacted_thinking", "data": "zzz"},
    ]


def test_a_break_point_never_stands_on_reasoning() -> None:
    """CACHE-01."""
    body = build_body(model_request(user("hi"), assistant("x", SIGNED)))
    text, thinking = body["messages"][-1]["content"]
    assert text["cache_control"] == CACHE
    assert "cache_control" not in thinking


def test_results_come_first_and_neighbours_of_one_role_are_joined() -> None:
    """K-PAIRING-01."""
    wire = wire_messages(
        [user("steer", result("c", "A", is_error=True)), user("more"), assistant("x")]
    )
    assert wire == [
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "A", "is_error": True},
                {"type": "text", "text": "steer"},
                {"type": "text", "text": "more"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
    ]


def test_attachments_go_natively_or_as_text() -> None:
    """PART-05, PART-07."""
    notes = base64.b64encode(b"# Notes").decode()
    output = (
        TextBlock(text="see"),
        ImageBlock(media_type="image/png", data="aGk="),
        VideoBlock(media_type="video/mp4", data="aGk="),
    )
    wire = wire_messages(
        [
            user(
                ToolResultBlock(call_id="c", output=output),
                DocumentBlock(media_type="application/pdf", data="aGk=", name="a.pdf"),
                DocumentBlock(media_type="text/markdown", data=notes, name="n.md"),
                DocumentBlock(media_type="text/plain", data="raw", encoding="text"),
                ImageBlock(media_type="image/png", ref="abc"),
                CompactSummaryBlock(summary="Before: x"),
            )
        ]
    )
    image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
    assert wire[0]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "c",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": image},
                {"type": "text", "text": "[video: video/mp4, 4 b64 bytes]"},
            ],
        },
        {"type": "document", "source": pdf, "title": "a.pdf"},
        {"type": "text", "text": "[attachment: n.md (text/markdown)]\n# Notes"},
        {"type": "text", "text": "[attachment: document (text/plain)]\nraw"},
        {"type": "text", "text": "[image: image/png, ref abc]"},
        {"type": "text", "text": "Before: x"},
    ]


def test_ids_of_other_providers_are_mapped_the_same_way_each_time() -> None:
    """K-OPENAI-05: ids that differ stay different."""
    assert wire_id("toolu_1-x") == "toolu_1-x"
    mapped = [wire_id("shell:0"), wire_id("shell.0"), wire_id("shell:0")]
    assert mapped[0] == mapped[2] != mapped[1]
    wire = wire_messages([assistant(call("shell:0", "a b")), user(result("shell:0", "x"))])
    assert wire[0]["content"][0]["id"] == wire[1]["content"][0]["tool_use_id"] == mapped[0]
    assert wire[0]["content"][0]["name"] == "a_b"


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("claude-sonnet-4-5-20250929", None, 64_000),
        ("claude-opus-4-1", None, 32_000),
        ("claude-opus-4-8", None, 128_000),
        ("some-proxy-model", None, 32_000),
        ("claude-opus-4-8", 100, 100),
    ],
)
def test_max_tokens_is_the_ceiling_unless_asked_for(
    model: str, asked: int | None, sent: int
) -> None:
    """LOOP-12: the field is mandatory."""
    assert _body(model, max_tokens=asked)["max_tokens"] == sent


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("x", {}, {}),
        ("x", {"thinking_budget": 2_000}, {}),
        ("x", {"thinking": "adaptive"}, {"thinking": {"type": "adaptive"}}),
        (
            "x",
            {"thinking": "minimal"},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (
            "claude-opus-5-5",
            {"thinking": "max"},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        ),
        (
            "x",
            {"thinking": "low", "thinking_budget": 2_000},
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
        ),
        (
            "claude-opus-5-5",
            {"thinking": "low", "thinking_budget": 12_000},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}},
        ),
        (
            "claude-sonnet-4-5",
            {"thinking": "high"},
            {"thinking": {"type": "enabled", "budget_tokens": 32_768}},
        ),
        (
            "claude-sonnet-4-5",
            {"thinking": "adaptive"},
            {"thinking": {"type": "enabled", "budget_tokens": 10_240}},
        ),
        (
            "claude-sonnet-4-5",
            {"thinking": "high", "max_tokens": 4_000},
            {"thinking": {"type": "enabled", "budget_tokens": 3_999}},
        ),
        ("claude-sonnet-4-5", {"thinking": "high", "max_tokens": 1_000}, {}),
    ],
)
def test_the_thinking_level_becomes_what_the_model_takes(
    model: str, fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    """RUN-05, THNK-01, THNK-02."""
    body = _body(model, **fields)
    sent = {key: body[key] for key in ("thinking", "output_config") if key in body}
    assert sent == expected


def test_known_options_are_sent_and_unknown_ones_ignored() -> None:
    """RUN-18."""
    body = _body(model_options={"temperature": 0.5, "fast": True})
    assert body["temperature"] == 0.5
    assert "fast" not in body
