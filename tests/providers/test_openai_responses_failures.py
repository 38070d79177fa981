"""The Responses API when things go wrong: failures, cuts, refused fields, servers without it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from tests.support.fake_llm import FakeLLM, Reply, Request, json_error, openai_chunks
from tests.support.model_requests import (
    RecordingSink,
    failure_of,
    model_request,
)
from tests.support.responses_events import (
    begun,
    ended,
    function_call,
    item_events,
    message,
    response_stream,
    responses_events,
    started,
)
from zidane_core.content import (
    TextBlock,
)
from zidane_core.errors import ProviderError, ProviderFailure

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
RESPONSES = {"api": "responses"}
READ = function_call("read_file", '{"path":"a.txt"}')


@pytest.fixture
async def provider(fake_llm: FakeLLM) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(ROWS["openai"], api_key="sk-test-123456", base_url=fake_llm.openai_url)
    yield made
    await made.close()


def _request(*messages: Any, **fields: Any) -> Any:
    options = {**RESPONSES, **fields.pop("model_options", {})}
    return model_request(*messages, model_options=options, **fields)


async def _failure(provider: OpenAIProvider, sink: RecordingSink | None = None) -> ProviderFailure:
    with pytest.raises(ProviderError) as raised:
        await provider.stream(_request(), sink or RecordingSink())
    return failure_of(raised.value)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", "server", True),
        ("rate_limit_exceeded", "rate_limit", True),
        ("vector_store_timeout", "timeout", True),
        ("insufficient_quota", "quota", False),
        ("context_length_exceeded", "context_exceeded", False),
        ("invalid_prompt", "invalid", False),
        ("invalid_image_format", "invalid", False),
        ("image_too_large", "invalid", False),
        ("bio_policy", "invalid", False),
    ],
)
@pytest.mark.parametrize("form", ["failed", "error", "nested"])
async def test_a_failure_inside_the_stream_is_classified_by_its_code(
    fake_llm: FakeLLM, provider: OpenAIProvider, form: str, code: str, kind: str, *, retryable: bool
) -> None:
    """K-OPENAI-10, PROV-05, ERR-07, LOOP-14: response.failed, and the error event in both forms."""
    said = {"code": code, "message": "It did not work."}
    event = {
        "failed": ended(status="failed", error=said, usage=None),
        "error": {"type": "error", **said, "param": None},
        "nested": {"type": "error", "error": said},
    }[form]
    fake_llm.reply(responses_events(*started(), *begun(0, message("Wo")), event))
    sink = RecordingSink()
    failure = await _failure(provider, sink)
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert failure.provider_code == code
    assert failure.repair == ("media" if "image" in code else None)
    assert failure.streamed
    assert failure.status is None
    assert sink.events == [("text", "W"), ("text", "o")]


async def test_an_invalid_key_inside_the_stream_is_final(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-10, variation: and the key is not shown."""
    error = {"code": "invalid_api_key", "message": "bad sk-test-123456"}
    fake_llm.reply(responses_events({"type": "error", **error}))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == ("auth", False, False)
    assert "123456" not in failure.message


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_response_that_failed_without_a_word_is_tried_again(
    fake_llm: FakeLLM, provider: OpenAIProvider, status: str
) -> None:
    """PROV-05: nobody of ours cancels a response, so a server that did is down or restarting."""
    fake_llm.reply(responses_events(*started(), ended(status=status)))
    failure = await _failure(provider)
    assert failure.provider_code == f"response_{status}"
    assert failure.retryable


@pytest.mark.parametrize("ending", ["clean", "drop"])
@pytest.mark.parametrize("marker", [b"", b"data: [DONE]\n\n"])
async def test_a_stream_without_a_terminal_event_is_cut(
    fake_llm: FakeLLM, provider: OpenAIProvider, ending: str, marker: bytes
) -> None:
    """K-ANTHROPIC-02 on this wire, PROV-05, PROV-06: even when every item was done."""
    body = responses_events(*started(), *item_events(0, READ)).body
    fake_llm.reply(Reply(body + marker, ending=ending))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == ("network", True, True)


@pytest.mark.parametrize("ending", ["clean", "drop", "hang"])
async def test_nothing_after_the_terminal_event_can_spoil_the_turn(
    fake_llm: FakeLLM, provider: OpenAIProvider, ending: str
) -> None:
    """PROV-05: a dropped connection, or a server that never closes it."""
    fake_llm.reply(response_stream(message("hi"), ending=ending))
    turn = await provider.stream(_request(), RecordingSink())
    assert (turn.blocks, turn.finish_reason) == ((TextBlock(text="hi"),), "stop")
    if ending == "hang":
        await fake_llm.left(1)


@pytest.mark.parametrize("line", [b'data: {"type": "respon\n\n', b"data: \xff\n\n"])
async def test_an_event_that_cannot_be_read_is_retryable(
    fake_llm: FakeLLM, provider: OpenAIProvider, line: bytes
) -> None:
    """K-ANTHROPIC-11 on this wire."""
    fake_llm.reply(Reply(responses_events(*started()).body + line))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable) == ("network", True)


def _picky(request: Request) -> Reply:
    """Refuses what an unverified account and a model of few efforts do not get."""
    asked = request.body.get("reasoning", {})
    error: dict[str, Any] = {"type": "invalid_request_error", "code": "unsupported_value"}
    if "summary" in asked:
        error |= {"param": "reasoning.summary", "message": "Your organization must be verified."}
    elif asked.get("effort") == "max":
        supported = "Supported values are: 'low' and 'high'."
        error |= {"param": "reasoning.effort", "message": f"Unsupported value: 'max'. {supported}"}
    else:
        return response_stream(message("hi"))
    return json_error(400, {"error": error})


async def test_what_an_account_may_not_see_costs_one_request_and_no_turn(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """THNK-01, PROV-16: each refusal is remembered for the model."""
    fake_llm.otherwise = _picky
    for _ in range(2):
        turn = await provider.stream(_request(thinking="max"), RecordingSink())
        assert turn.blocks == (TextBlock(text="hi"),)
    assert [body["reasoning"] for body in fake_llm.bodies] == [
        {"effort": "max", "summary": "auto"},
        {"effort": "max"},
        {"effort": "high"},
        {"effort": "high"},
    ]


async def test_a_refusal_of_something_else_is_final_and_one_request(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-05, PROV-16."""
    error = {"type": "invalid_request_error", "param": "temperature", "message": "Not supported"}
    fake_llm.reply(json_error(400, {"error": error}))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.status) == ("invalid", False, 400)
    assert "Not supported" in failure.message
    assert len(fake_llm.requests) == 1


async def test_a_server_without_responses_is_asked_for_a_chat_completion_from_then_on(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-15, K-OPENAI-07 c in its form here: it is asked once."""

    def chat_only(request: Request) -> Reply:
        if request.path != "/v1/chat/completions":
            return json_error(404, {"detail": "Not Found"})
        return openai_chunks({"content": "hi"})

    fake_llm.otherwise = chat_only
    for _ in range(2):
        turn = await provider.stream(_request(), RecordingSink())
        assert turn.blocks == (TextBlock(text="hi"),)
    assert [request.path for request in fake_llm.requests] == [
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/chat/completions",
    ]


async def test_an_outage_of_chat_completions_does_not_settle_the_question(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    missing, down = json_error(404, {}), json_error(503, {"error": {"message": "down"}})
    fake_llm.reply(missing, down, response_stream(message("hi")))
    assert (await _failure(provider)).status == 503
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.blocks == (TextBlock(text="hi"),)


async def test_a_model_that_does_not_exist_is_no_missing_api(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-05."""
    error = {"code": "model_not_found", "message": "The model `x` does not exist", "param": None}
    fake_llm.reply(json_error(404, {"error": error}))
    failure = await _failure(provider)
    assert (failure.kind, failure.status) == ("invalid", 404)
    assert len(fake_llm.requests) == 1


async def test_an_api_that_does_not_exist_is_refused_before_a_request(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """RUN-18."""
    request = _request(model_options={"api": "grpc"})
    with pytest.raises(ProviderError, match=r"model_options\.api is 'grpc'"):
        await provider.stream(request, RecordingSink())
    assert fake_llm.requests == []
