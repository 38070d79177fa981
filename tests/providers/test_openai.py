"""The chat-completions provider over HTTP: the real SDK against recorded streams."""

import json
from collections.abc import AsyncIterator

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from tests.support.fake_llm import FakeLLM, Reply, Request, json_error, openai_chunks, sse_file
from tests.support.model_requests import (
    RecordingSink,
    assistant,
    call,
    failure_of,
    model_request,
    result,
    tool_spec,
    user,
)
from zidane_core.content import TextBlock, ThinkingBlock, ToolCallBlock
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.usage import TurnUsage

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
CALL_DELTA = {
    "tool_calls": [
        {
            "index": 0,
            "id": "call_abcdef",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path":"a.txt"}'},
        }
    ]
}
READ_CALL = call("call_abcdef", "read_file", path="a.txt")


@pytest.fixture
async def provider(fake_llm: FakeLLM) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(ROWS["openai"], api_key="sk-test-123456", base_url=fake_llm.openai_url)
    yield made
    await made.close()


async def _failure(provider: OpenAIProvider, sink: RecordingSink | None = None) -> ProviderFailure:
    with pytest.raises(ProviderError) as raised:
        await provider.stream(model_request(), sink or RecordingSink())
    return failure_of(raised.value)


async def test_a_turn_has_its_blocks_usage_and_model(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-01, PROV-14, USE-01: cached tokens are not counted as input."""
    usage = {
        "prompt_tokens": 120,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    fake_llm.reply(
        openai_chunks(
            {"role": "assistant", "content": ""},
            {"reasoning_content": "Hm."},
            {"content": "Let me "},
            {"content": "look."},
            CALL_DELTA,
            finish_reason="tool_calls",
            usage=usage,
            model="gpt-5",
        )
    )
    sink = RecordingSink()
    turn = await provider.stream(model_request(model="gpt-5"), sink)
    assert turn.blocks == (ThinkingBlock(text="Hm."), TextBlock(text="Let me look."), READ_CALL)
    assert turn.finish_reason == "tool-calls"
    assert turn.usage == TurnUsage(
        input=20,
        output=30,
        cache_read=100,
        thinking=5,
        model_id="gpt-5",
        provider="openai",
        cost=turn.usage.cost,
    )
    assert sink.events == [
        ("thinking", "Hm."),
        ("text", "Let me "),
        ("text", "look."),
        ("tool_call", "read_file"),
        ("tool_arguments", '{"path":"a.txt"}'),
    ]
    request = fake_llm.requests[0]
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-test-123456"
    assert request.body["stream_options"] == {"include_usage": True}


async def test_a_reported_cost_stands_over_the_estimate(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """USE-02."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.25}
    fake_llm.reply(openai_chunks({"content": "hi"}, usage=usage, model="gpt-5"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.usage.cost == 0.25


async def test_calls_without_index_are_told_apart_by_their_ids(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-01."""
    fake_llm.reply(sse_file("K-OPENAI-01-no-index.sse"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (
        call("c1", "grep", pattern="x"),
        call("c2", "glob", pattern="*.py"),
    )


async def test_arguments_that_come_as_an_object_leave_as_a_string(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-02."""
    fake_llm.reply(sse_file("K-OPENAI-02-object-args.sse"), openai_chunks({"content": "ok"}))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (call("c1", "shell", command="ls"),)
    history = (user("go"), assistant(*turn.blocks), user(result("c1", "a.txt")))
    await provider.stream(model_request(*history), RecordingSink())
    sent = fake_llm.bodies[1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert sent == '{"command":"ls"}'


@pytest.mark.parametrize(
    "reply",
    [
        sse_file("K-OPENAI-03-stop-with-tools.sse"),
        openai_chunks(CALL_DELTA, finish_reason=None, done=True),
    ],
    ids=["reason stop", "no reason but the marker"],
)
async def test_calls_count_whatever_reason_the_server_gives(
    fake_llm: FakeLLM, provider: OpenAIProvider, reply: Reply
) -> None:
    """K-OPENAI-03 a, b; LOOP-05."""
    fake_llm.reply(reply)
    turn = await provider.stream(model_request(), RecordingSink())
    assert [type(block) for block in turn.blocks] == [ToolCallBlock]
    assert turn.finish_reason == "tool-calls"


async def test_a_reason_of_calls_without_a_call_ends_the_turn(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-03 c."""
    fake_llm.reply(openai_chunks({"content": "hi"}, finish_reason="tool_calls"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert (turn.blocks, turn.finish_reason) == ((TextBlock(text="hi"),), "stop")


@pytest.mark.parametrize("ending", ["clean", "drop"])
async def test_a_reason_without_the_marker_is_a_whole_turn(
    fake_llm: FakeLLM, provider: OpenAIProvider, ending: str
) -> None:
    """K-OPENAI-03 d."""
    fake_llm.reply(openai_chunks({"content": "hi"}, done=False, ending=ending))
    turn = await provider.stream(model_request(), RecordingSink())
    assert (turn.blocks, turn.finish_reason) == ((TextBlock(text="hi"),), "stop")


@pytest.mark.parametrize("ending", ["clean", "drop"])
async def test_neither_reason_nor_marker_is_a_cut_stream(
    fake_llm: FakeLLM, provider: OpenAIProvider, ending: str
) -> None:
    """K-OPENAI-03 e, PROV-05."""
    fake_llm.reply(openai_chunks(CALL_DELTA, finish_reason=None, done=False, ending=ending))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == ("network", True, True)


async def test_one_call_under_several_indexes_is_one_call(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-04."""
    fake_llm.reply(sse_file("K-OPENAI-04-dup-index.sse"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (call("k1", "shell", command="echo x >> log"),)


async def test_equal_calls_with_ids_of_their_own_are_two_calls(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-04, contrast; both at index 0, as some servers send them."""
    function = {"name": "shell", "arguments": '{"command":"ls"}'}
    deltas = (
        {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}
        for call_id in ("kx", "ky")
    )
    fake_llm.reply(openai_chunks(*deltas, finish_reason="tool_calls"))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (call("kx", "shell", command="ls"), call("ky", "shell", command="ls"))


async def test_an_overload_inside_a_stream_is_retryable(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-10: the error is no text."""
    fake_llm.reply(sse_file("K-OPENAI-10-error-in-stream.sse"))
    sink = RecordingSink()
    assert await _failure(provider, sink) == ProviderFailure(
        kind="overloaded",
        message="OpenAI is overloaded.",
        retryable=True,
        provider="openai",
        provider_code="server_is_overloaded",
        streamed=True,
    )
    assert sink.events == [("text", "Wo")]


async def test_an_invalid_key_inside_a_stream_is_final(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-10, variation."""
    error = {"type": "invalid_request_error", "code": "invalid_api_key", "message": "bad sk-1"}
    fake_llm.reply(Reply(f"data: {json.dumps({'error': error})}\n\n".encode()))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == ("auth", False, False)
    assert "sk-1" not in failure.message


async def test_a_used_up_quota_is_final_and_one_request(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-05, PROV-16: a 429 that waiting does not mend."""
    error = {"code": "insufficient_quota", "type": "insufficient_quota", "message": "no money"}
    fake_llm.reply(json_error(429, {"error": error}))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.status) == ("quota", False, 429)
    assert len(fake_llm.requests) == 1


async def test_usage_is_estimated_where_the_server_sends_none(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-07 a: never zero, so that budgets work, and marked as an estimate."""
    zeros = {"prompt_tokens": 0, "completion_tokens": 0}
    fake_llm.reply(
        openai_chunks({"content": "x" * 40}), openai_chunks({"content": "x" * 40}, usage=zeros)
    )
    for _ in range(2):
        turn = await provider.stream(model_request(user("y" * 400)), RecordingSink())
        assert (turn.usage.input, turn.usage.output, turn.usage.estimated) == (100, 10, True)


async def test_a_server_that_refuses_stream_options_is_asked_once_without_them(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-07 c: and it is remembered."""

    def strict(request: Request) -> Reply:
        if "stream_options" in request.body:
            return json_error(400, {"error": {"message": "unknown field stream_options"}})
        return openai_chunks({"content": "hi"})

    fake_llm.otherwise = strict
    for _ in range(2):
        turn = await provider.stream(model_request(), RecordingSink())
        assert turn.blocks == (TextBlock(text="hi"),)
    assert ["stream_options" in body for body in fake_llm.bodies] == [True, False, False]


async def test_a_call_cut_by_the_output_limit_is_marked_as_cut(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-ANTHROPIC-04 on this wire: valid JSON may still lack fields."""
    fake_llm.reply(openai_chunks(CALL_DELTA, finish_reason="length"))
    turn = await provider.stream(model_request(), RecordingSink())
    (block,) = turn.blocks
    assert isinstance(block, ToolCallBlock)
    assert turn.finish_reason == "length"
    assert block.invalid is not None
    assert "cut off by the output limit" in block.invalid


async def test_aliases_become_canonical_names(fake_llm: FakeLLM, provider: OpenAIProvider) -> None:
    """TOOL-05, SESS-08."""
    delta = {"tool_calls": [{"index": 0, "id": "c9", "function": {"name": "Sh", "arguments": ""}}]}
    fake_llm.reply(openai_chunks(delta, finish_reason="tool_calls"))
    request = model_request(tools=(tool_spec("shell", alias="Sh"),))
    turn = await provider.stream(request, RecordingSink())
    assert turn.blocks == (call("c9", "shell"),)


async def test_openais_organization_is_not_told_to_other_services(
    fake_llm: FakeLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROV-15: the SDK reads OpenAI's variables for every base URL."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin-secret")
    provider = OpenAIProvider(ROWS["cerebras"], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.reply(openai_chunks({"content": "hi"}))
    turn = await provider.stream(model_request(), RecordingSink())
    await provider.close()
    assert turn.usage.provider == "cerebras"
    assert "secret" not in str(fake_llm.requests[0].headers)
