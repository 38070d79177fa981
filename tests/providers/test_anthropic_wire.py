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
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    VideoBlock,
)
from zidane_core.models import ModelInfo
from zidane_core.values import Json

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
        "max_tokens": 128_000,
        "stream": True,
        "thinking": {
            "type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
        "output_config": {"effort": "low"},
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
    ("model", "asked", "known", "sent"),
    [
        ("claude-sonnet-4-5-20250929", None, None, 64_000),
        ("claude-opus-4-1", None, None, 32_000),
        ("claude-opus-4-8", None, None, 128_000),
        ("claude-haiku-5-5", None, None, 128_000),
        ("claude-opus-9", None, None, 128_000),
        ("some-proxy-model", None, None, 32_000),
        ("claude-opus-4-8", 100, None, 100),
        ("claude-opus-4-8", 200_000, None, 128_000),
        ("claude-opus-4-8", None, 300_000, 300_000),
        ("claude-opus-4-8", 200_000, 300_000, 200_000),
        ("some-proxy-model", 200_000, None, 200_000),
        ("some-proxy-model", 200_000, 8_192, 8_192),
    ],
)
def test_max_tokens_is_what_was_asked_for_up_to_the_ceiling(
    model: str, asked: int | None, known: int | None, sent: int
) -> None:
    """LOOP-12, CAT-02: the field is mandatory; the catalogue stands over our own list."""
    body = _body(model, max_tokens=asked, info=ModelInfo(max_tokens=known))
    assert body["max_tokens"] == sent


def test_a_paused_turn_goes_back_as_it_came_and_last() -> None:
    """K-ANTHROPIC-03 (sending): same blocks, same order, no text of ours behind them."""
    use: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
        "caller": {"type": "direct"},
    }
    body = build_body(
        model_request(
            user("find it"),
            assistant(SIGNED, "Searching.", ServerToolUseBlock(producer="anthropic", raw=use)),
            cache=False,
        )
    )
    assert body["messages"][-1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "Searching."},
            use,
        ],
    }


def test_blocks_of_the_service_go_back_verbatim_and_in_their_place() -> None:
    """SESS-05: calls, results, compactions and kinds newer than this code."""
    raws: list[dict[str, Any]] = [
        {"type": "compaction", "content": "Before: x", "encrypted_content": "e", "signature": "s"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"a": 1}]},
        {"type": "block_of_tomorrow", "payload": [1, None]},
    ]
    blocks = [
        ServerToolResultBlock(producer="anthropic", raw=raws[0]),
        ServerToolUseBlock(producer="anthropic", raw=raws[1]),
        ServerToolResultBlock(producer="anthropic", raw=raws[2]),
        ServerToolResultBlock(producer="anthropic", raw=raws[3]),
    ]
    wire = wire_messages([user("hi"), assistant(*blocks, "So."), user("ok")])
    assert wire[1]["content"] == [*raws, {"type": "text", "text": "So."}]


def test_citations_go_back_only_to_who_gave_them() -> None:
    """SESS-06: without the file that the service names and does not take back."""
    cited: Json = {"type": "char_location", "cited_text": "x", "document_index": 0, "file_id": None}
    ours = TextBlock(text="So.", citations=(cited,), signature_producer="anthropic")
    theirs = TextBlock(text="So.", citations=(cited,), signature_producer="openai")
    wire = wire_messages([assistant(ours, theirs)])[0]["content"]
    kept = {"type": "char_location", "cited_text": "x", "document_index": 0}
    assert wire == [
        {"type": "text", "text": "So.", "citations": [kept]},
        {"type": "text", "text": "So."},
    ]


def test_an_error_result_is_text_and_never_empty() -> None:
    """PART-07: the service refuses pictures and emptiness in one."""
    image = ImageBlock(media_type="image/png", data="aGk=")
    wire = wire_messages(
        [
            user(
                ToolResultBlock(call_id="a", output=(image,), is_error=True),
                ToolResultBlock(call_id="b", output="", is_error=True),
                ToolResultBlock(call_id="c", output=""),
            )
        ]
    )
    assert [block["content"] for block in wire[0]["content"]] == [
        "[image: image/png, 4 b64 bytes]",
        "(no output)",
        "",
    ]


# -- the prompt cache -------------------------------------------------------------------------


def _marks(body: dict[str, Any]) -> list[Any]:
    blocks = [*body.get("system", ()), *body.get("tools", ())]
    for message in body["messages"]:
        blocks += message["content"]
    return [block["cache_control"] for block in blocks if "cache_control" in block]


WHOLE: dict[str, Any] = {"system": "Be brief.", "tools": (tool_spec("glob"),)}


def test_every_break_point_lives_equally_long() -> None:
    """CACHE-02: an hour on each, or on none where the account cannot choose."""
    request = model_request(user("hi"), cache_ttl="1h", **WHOLE)
    assert _marks(build_body(request)) == [{"type": "ephemeral", "ttl": "1h"}] * 3
    assert _marks(build_body(request, knows_ttl=False)) == [CACHE] * 3


def test_without_cache_there_is_no_break_point() -> None:
    """CACHE-01, CACHE-02: nor a time to live."""
    assert _marks(_body(cache=False, cache_ttl="1h", **WHOLE)) == []


def test_a_break_point_never_stands_on_a_block_that_takes_none() -> None:
    """CACHE-01: reasoning, and kinds of block that we do not know."""
    odd = ServerToolResultBlock(producer="anthropic", raw={"type": "fallback"})
    body = build_body(model_request(user("hi"), assistant("x", SIGNED, odd)))
    assert [block.get("cache_control") for block in body["messages"][-1]["content"]] == [
        CACHE,
        None,
        None,
    ]


def test_a_long_turn_leaves_the_break_point_of_the_request_before_in_reach() -> None:
    """CACHE-01: the service looks back twenty blocks; ten parallel calls are more."""
    calls = [call(f"toolu_{n}x", "glob") for n in range(10)]
    results = [result(f"toolu_{n}x", "ok") for n in range(10)]
    long = build_body(model_request(user("hi"), assistant(*calls), user(*results), **WHOLE))
    short = build_body(
        model_request(user("hi"), assistant(*calls[:9]), user(*results[:9]), **WHOLE)
    )
    assert "cache_control" in long["messages"][0]["content"][-1]
    assert len(_marks(long)) == 4
    assert "cache_control" not in short["messages"][0]["content"][-1]


def test_a_deferred_tool_carries_no_break_point() -> None:
    """CACHE-01: the service refuses it; the last one that is there from the start does."""
    deferred: Json = {"type": "custom", "name": "late", "defer_loading": True}
    body = _body(model_options={"server_tools": [deferred]}, **WHOLE)
    assert [tool.get("cache_control") for tool in body["tools"]] == [CACHE, None]
