import json

import httpx2
import pytest

from activities.providers.classify import (
    KIND_BY_CODE,
    RETRYABLE_KINDS,
    Answer,
    classify_answer,
    classify_exception,
    retry_after_ms,
    truncated,
)
from zidane_core.errors import ClassifiedErrorKind, ProviderFailure

STATUSES: tuple[tuple[int, ClassifiedErrorKind, bool], ...] = (
    (400, "invalid", False),
    (401, "auth", False),
    (402, "quota", False),
    (403, "auth", False),
    (404, "invalid", False),
    (408, "timeout", True),
    (409, "server", True),
    (413, "invalid", False),
    (422, "invalid", False),
    (429, "rate_limit", True),
    (500, "server", True),
    (502, "server", True),
    (503, "server", True),
    (504, "timeout", True),
    (529, "overloaded", True),
    (599, "server", True),
)


@pytest.mark.parametrize(("status", "kind", "is_retryable"), STATUSES)
def test_a_status_alone_tells_the_kind(
    status: int, kind: ClassifiedErrorKind, is_retryable: bool
) -> None:
    """PROV-05, ERR-07."""
    failure = classify_answer("anthropic", Answer(status=status))
    assert (failure.kind, failure.retryable, failure.status) == (kind, is_retryable, status)
    assert f"HTTP {status}" in failure.message
    assert failure.message.endswith(".")


@pytest.mark.parametrize(("code", "kind"), KIND_BY_CODE.items())
def test_a_code_inside_a_stream_tells_the_kind(code: str, kind: ClassifiedErrorKind) -> None:
    """K-ANTHROPIC-01, K-OPENAI-10: the status was 200, so it is neither used nor shown."""
    failure = classify_answer("openai", Answer(status=200, codes=(code,)))
    assert (failure.kind, failure.retryable) == (kind, kind in RETRYABLE_KINDS)
    assert failure.status is None
    assert "200" not in failure.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(429, ("insufficient_quota", "insufficient_quota")), "quota"),
        (Answer(503, ("server_is_overloaded", "service_unavailable_error")), "overloaded"),
        (Answer(401, ("invalid_api_key", "invalid_request_error")), "auth"),
        (Answer(429, ("api_error",)), "rate_limit"),
        (Answer(200, ("429",), "try later"), "rate_limit"),
        (Answer(200, ("invalid_request_error",)), "invalid"),
        (Answer(200, ("something_new",)), "unknown"),
        (Answer(400, ("invalid_request_error",), "prompt is too long: 9 > 8"), "context_exceeded"),
        (Answer(200, (), "request exceeds the available context size"), "context_exceeded"),
        (Answer(500, (), "prompt is too long"), "server"),
        (Answer(400, ("invalid_request_error",), "Your credit balance is too low"), "quota"),
        (Answer(), "unknown"),
    ],
)
def test_code_status_and_message_together_tell_the_kind(
    answer: Answer, kind: ClassifiedErrorKind
) -> None:
    """ERR-07, ERR-08: the code stands over the status, the status over a generic type."""
    assert classify_answer("openai", answer).kind == kind


@pytest.mark.parametrize(
    ("error", "kind", "is_retryable"),
    [
        (httpx2.RemoteProtocolError("peer closed connection"), "network", True),
        (httpx2.ConnectError("refused"), "network", True),
        (httpx2.ReadError("reset"), "network", True),
        (httpx2.ReadTimeout("slow"), "timeout", True),
        (httpx2.ConnectTimeout("slow"), "timeout", True),
        (json.JSONDecodeError("Expecting value", "oops", 0), "network", True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "network", True),
        (ValueError("new"), "unknown", False),
    ],
)
def test_exceptions_of_the_transport_are_told_apart_by_name(
    error: Exception, kind: ClassifiedErrorKind, is_retryable: bool
) -> None:
    """PROV-05."""
    failure = classify_exception("anthropic", error)
    assert (failure.kind, failure.retryable) == (kind, is_retryable)


def test_a_stream_that_ends_early_is_retryable() -> None:
    """K-ANTHROPIC-02."""
    assert truncated("scripted") == ProviderFailure(
        kind="network",
        message="The connection to the scripted model failed: the stream ended early.",
        retryable=True,
        provider="scripted",
        provider_code="truncated_stream",
    )


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7_000),
        ({"Retry-After": "0.5"}, 500),
        ({"retry-after-ms": "250", "retry-after": "7"}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        (
            {
                "date": "Mon, 30 Nov 2026 10:00:00 GMT",
                "retry-after": "Mon, 30 Nov 2026 10:00:05 GMT",
            },
            5_000,
        ),
        ({"retry-after": "Mon, 30 Nov 2020 10:00:05 GMT"}, 0),
    ],
)
def test_the_delay_asked_for_is_read_in_every_form(
    headers: dict[str, str], expected: int | None
) -> None:
    """PROV-04."""
    assert retry_after_ms(headers) == expected


@pytest.mark.parametrize(
    "said",
    [
        '{"error": {"message": "raw"}}',
        "<html><body>Bad gateway</body></html>",
        "Incorrect API key provided: sk-proj-abcdef123456",
        "header Bearer abcdef123456 refused",
    ],
)
def test_messages_hold_neither_keys_nor_raw_bodies(said: str) -> None:
    """K-ANTHROPIC-10, ERR-07."""
    for status in (400, 401, 418):
        message = classify_answer("openai", Answer(status, message=said)).message
        assert "abcdef123456" not in message
        assert "{" not in message
        assert "<" not in message
        assert "\n" not in message


def test_a_providers_words_are_cut_to_a_sentence() -> None:
    message = classify_answer("openai", Answer(400, message="bad\n" * 1_000)).message
    assert message.startswith("OpenAI refused the request (HTTP 400): bad bad")
    assert len(message) < 400
