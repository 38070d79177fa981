"""The Anthropic provider over HTTP: the real SDK against a server that plays recorded streams."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from activities.providers.anthropic import AnthropicProvider
from activities.providers.base import ProviderCapabilities
from tests.support.fake_llm import FakeLLM, Reply, anthropic_turn, json_error, sse_file
from tests.support.model_requests import (
    RecordingSink,
    assistant,
    call,
    failure_of,
    model_request,
    tool_spec,
    user,
)
from zidane_core.content import ServerToolUseBlock, TextBlock, ThinkingBlock
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.usage import TurnUsage


@pytest.fixture
async def provider(fake_llm: FakeLLM) -> AsyncIterator[AnthropicProvider]:
    made = AnthropicProvider(api_key="sk-test-123456", base_url=fake_llm.url)
    yield made
    await made.close()


async def _failure(
    provider: AnthropicProvider, sink: RecordingSink | None = None
) -> ProviderFailure:
    with pytest.raises(ProviderError) as raised:
        await provider.stream(model_request(), sink or RecordingSink())
    return failure_of(raised.value)


async def test_a_turn_has_its_blocks_usage_and_model(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-01, PROV-14, TOOL-05, USE-01: names become canonical."""
    fake_llm.reply(
        anthropic_turn(
            {"type": "thinking", "thinking": "Hm.", "signature": "sig-1"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "toolu_abc", "name": "Read", "input": {"path": "a"}},
            stop_reason="tool_use",
            model="claude-sonnet-5-5",
            usage={"cache_read_input_tokens": 100, "cache_creation_input_tokens": 0},
        )
    )
    sink = RecordingSink()
    turn = await provider.stream(
        model_request(model="claude-sonnet-5-5", tools=(tool_spec("read_file", alias="Read"),)),
        sink,
    )
    assert turn.blocks == (
        ThinkingBlock(
            text="Hm.",
            signature="sig-1",
            signature_producer="anthropic",
            signature_model="claude-sonnet-5-5",
        ),
        TextBlock(text="Let me look."),
        call("toolu_abc", "read_file", path="a"),
    )
    assert turn.finish_reason == "tool-calls"
    assert turn.usage == TurnUsage(
        input=120,
        output=30,
        cache_read=100,
        cache_creation=0,
        model_id="claude-sonnet-5-5",
        provider="anthropic",
        cost=turn.usage.cost,
    )
    assert sink.events == [
        ("thinking", "Hm."),
        ("text", "Let me look."),
        ("tool_call", "Read"),
        ("tool_arguments", '{"path": "a"}'),
    ]
    request = fake_llm.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == "Bearer sk-test-123456"
    assert request.body["stream"] is True


async def test_an_unknown_model_has_no_cost(fake_llm: FakeLLM, provider: AnthropicProvider) -> None:
    """USE-02, PROV-14."""
    fake_llm.reply(anthropic_turn({"type": "text", "text": "hi"}))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.usage.cost is None
    assert turn.usage.model_id == "fake-claude"


async def test_an_overload_inside_a_stream_is_retryable(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-01: the begun call is not returned; a ping is no event."""
    fake_llm.reply(sse_file("K-ANTHROPIC-01-overloaded.sse"))
    sink = RecordingSink()
    assert await _failure(provider, sink) == ProviderFailure(
        kind="overloaded",
        message="Anthropic is overloaded.",
        retryable=True,
        provider="anthropic",
        provider_code="overloaded_error",
        streamed=True,
    )
    assert sink.events == [
        ("text", "Let me "),
        ("tool_call", "shell"),
        ("tool_arguments", '{"command":"rm -rf build'),
    ]
    fake_llm.reply(anthropic_turn({"type": "text", "text": "done"}))
    turn = await provider.stream(model_request(attempt=2), RecordingSink())
    assert turn.blocks == (TextBlock(text="done"),)


@pytest.mark.parametrize("lines", [9, 3])
async def test_a_stream_that_ends_early_is_a_retryable_failure(
    fake_llm: FakeLLM, provider: AnthropicProvider, lines: int
) -> None:
    """K-ANTHROPIC-02: in the middle of a call, and right after message_start."""
    whole = sse_file("K-ANTHROPIC-02-eof-mid-tool.sse").body
    cut = b"\n".join(whole.split(b"\n")[:lines]) + b"\n\n"
    fake_llm.reply(Reply(cut))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable) == ("network", True)
    assert failure.streamed is (lines > 3)
    assert failure.message == "The connection to Anthropic failed: the stream ended early."


async def test_a_dropped_connection_is_a_retryable_failure(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-02, PROV-05."""
    fake_llm.reply(sse_file("K-ANTHROPIC-02-eof-mid-tool.sse", ending="drop"))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == ("network", True, True)


async def test_a_connection_that_drops_after_the_terminal_event_loses_nothing(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-05: a turn that is whole is not paid for twice."""
    fake_llm.reply(sse_file("K-TEMPORAL-08-attempt2.sse", ending="drop"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (TextBlock(text="Hello world."),)


async def test_an_unreachable_server_is_a_retryable_failure() -> None:
    """PROV-05."""
    async with FakeLLM() as gone:
        url = gone.url
    provider = AnthropicProvider(api_key="k", base_url=url)
    failure = await _failure(provider)
    await provider.close()
    assert (failure.kind, failure.retryable, failure.streamed) == ("network", True, False)


async def test_an_event_that_is_not_json_is_a_retryable_failure(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-05."""
    fake_llm.reply(Reply(b"event: message_start\ndata: {oops\n\n"))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable) == ("network", True)


async def test_a_paused_turn_keeps_the_server_call_as_it_came(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-03 (receiving), LOOP-05."""
    fake_llm.reply(sse_file("K-ANTHROPIC-03-pause.sse"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.finish_reason == "pause"
    assert turn.blocks == (
        TextBlock(text="Searching."),
        ServerToolUseBlock(
            producer="anthropic",
            raw={
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "x"},
            },
        ),
    )


async def test_a_call_cut_by_the_output_limit_is_marked_as_cut(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-04: broken JSON, and valid JSON that lacks fields."""
    whole = {"type": "tool_use", "id": "toolu_c", "name": "write_file", "input": {"path": "p"}}
    fake_llm.reply(
        sse_file("K-ANTHROPIC-04-max-tokens-tool.sse"),
        anthropic_turn(whole, stop_reason="max_tokens"),
    )
    for _ in range(2):
        turn = await provider.stream(model_request(), RecordingSink())
        assert turn.finish_reason == "length"
        (block,) = turn.blocks
        assert block.type == "tool_call"
        assert block.input == {}
        assert block.invalid is not None
        assert "cut off by the output limit" in block.invalid


async def test_a_stream_that_dies_while_thinking_reports_the_discarded_thinking(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-06, K-ANTHROPIC-07: reasoning alone does not count as streamed."""
    fake_llm.reply(sse_file("K-ANTHROPIC-07-thinking-abort.sse"))
    failure = await _failure(provider)
    assert (failure.streamed, failure.discarded_thinking) == (False, 31)


async def test_an_invalid_request_inside_a_stream_is_final(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-11, PROV-16: one request, the service's own words, no retry."""
    fake_llm.reply(sse_file("K-ANTHROPIC-11-invalid.sse"))
    assert await _failure(provider) == ProviderFailure(
        kind="invalid",
        message="Anthropic refused the request: tools.0.name: too long.",
        provider="anthropic",
        provider_code="invalid_request_error",
    )
    assert len(fake_llm.requests) == 1


async def test_a_refusing_status_is_one_request_with_the_delay_asked_for(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-04, PROV-16: the SDK does not retry by itself."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    fake_llm.reply(json_error(429, body, retry_after="7"))
    assert await _failure(provider) == ProviderFailure(
        kind="rate_limit",
        message="Anthropic limits the rate of requests (HTTP 429).",
        retryable=True,
        retry_after_ms=7000,
        status=429,
        provider="anthropic",
        provider_code="rate_limit_error",
    )
    assert len(fake_llm.requests) == 1


async def test_a_paused_turn_goes_on_where_it_was(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """K-ANTHROPIC-03: request 2 is request 1 and what was paused, with no word of ours."""
    fake_llm.reply(
        sse_file("K-ANTHROPIC-03-pause.sse"),
        anthropic_turn({"type": "text", "text": "Found it."}),
    )
    asked = user("find x")
    paused = await provider.stream(model_request(asked, cache=False), RecordingSink())
    again = model_request(asked, assistant(*paused.blocks), cache=False)
    turn = await provider.stream(again, RecordingSink())
    assert turn.blocks == (TextBlock(text="Found it."),)
    first, second = (body["messages"] for body in fake_llm.bodies)
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
    assert second == [
        *first,
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Searching."},
                {**use, "input": {"query": "x"}},
            ],
        },
    ]


async def test_a_server_tool_has_run_once_its_call_was_whole(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-06, PROV-08: it was charged, so a stream that breaks behind it is not repeated."""
    whole = sse_file("K-ANTHROPIC-03-pause.sse").body.split(b"\n\n")
    calls_end = next(at for at, event in enumerate(whole) if b'"index":1}' in event)
    ran, begun = (Reply(b"\n\n".join(whole[:end]) + b"\n\n") for end in (calls_end + 1, calls_end))
    fake_llm.reply(ran, begun)
    sink = RecordingSink()
    assert (await _failure(provider, sink)).server_tool_ran is True
    assert sink.events[-1] == ("server_tool", "web_search")
    assert (await _failure(provider)).server_tool_ran is False


async def test_the_result_of_a_server_tool_says_that_it_ran(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-06: also when the call was in the turn before."""
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [1]}
    fake_llm.reply(anthropic_turn(found, {"type": "text", "text": "Found it."}))
    sink = RecordingSink()
    await provider.stream(model_request(), sink)
    assert sink.events == [("server_tool", "web_search_tool_result"), ("text", "Found it.")]


async def test_the_id_of_a_call_is_the_services_own(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-14: from the header; a server without one is known by its message."""
    reply = anthropic_turn({"type": "text", "text": "hi"})
    fake_llm.reply(Reply(reply.body, headers={"request-id": "req_7"}), reply)
    ids = [(await provider.stream(model_request(), RecordingSink())).request_id for _ in range(2)]
    assert ids == ["req_7", "msg_1"]


async def test_a_bearer_token_makes_cache_entries_live_five_minutes(fake_llm: FakeLLM) -> None:
    """CACHE-02, PROV-02: an hour asked for on the OAuth path is none, and names no beta."""
    provider = AnthropicProvider(api_key=None, auth_token="token-123456", base_url=fake_llm.url)
    fake_llm.reply(anthropic_turn({"type": "text", "text": "hi"}))
    await provider.stream(model_request(cache_ttl="1h"), RecordingSink())
    await provider.close()
    assert provider.capabilities.cache_ttl is False
    assert AnthropicProvider.capabilities.cache_ttl is True
    (request,) = fake_llm.requests
    assert request.headers["authorization"] == "Bearer token-123456"
    assert "anthropic-beta" not in request.headers
    (message,) = request.body["messages"]
    assert message["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_what_the_wire_can_carry_is_declared() -> None:
    """PROV-02, THNK-08."""
    assert AnthropicProvider.capabilities == ProviderCapabilities(
        images=True,
        documents=True,
        tool_result_images=True,
        max_media_per_request=100,
        adaptive_budget_is_envelope=True,
        server_tools=True,
        cache_ttl=True,
        structured_output=True,
        max_request_bytes=32_000_000,
    )


async def test_cancelling_a_call_closes_the_connection(
    fake_llm: FakeLLM, provider: AnthropicProvider
) -> None:
    """PROV-01, K-ANTHROPIC-06."""
    fake_llm.reply(sse_file("K-ANTHROPIC-07-thinking-abort.sse", ending="hang"))
    streaming = asyncio.create_task(provider.stream(model_request(), RecordingSink()))
    await fake_llm.received(1)
    streaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await streaming
    await asyncio.wait_for(fake_llm.left(1), timeout=10)
