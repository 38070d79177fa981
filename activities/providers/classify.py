"""From what a model service or its SDK said to a ProviderFailure: one table for all vendors.

Exceptions are told apart by class name and attributes, not by class: both SDKs and their HTTP
library use the same names, and importing an SDK costs a worker that does not use it 45 MB.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from activities.providers.history_faults import history_repair
from zidane_core.errors import ClassifiedErrorKind, ProviderFailure, matches_context_exceeded

RETRYABLE_KINDS: frozenset[ClassifiedErrorKind] = frozenset(
    ("rate_limit", "overloaded", "network", "timeout", "server")
)
"""Kinds that may succeed when the same request is sent again (PROV-05)."""

KIND_BY_CODE: dict[str, ClassifiedErrorKind] = {
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "engine_overloaded": "overloaded",
    "context_length_exceeded": "context_exceeded",
    "model_context_window_exceeded": "context_exceeded",
    "exceed_context_size_error": "context_exceeded",
    "timeout_error": "timeout",
    "api_error": "server",
    "server_error": "server",
    "service_unavailable_error": "server",
    "not_found_error": "invalid",
    "model_not_found": "invalid",
    "request_too_large": "invalid",
}
"""By the code or type in an answer's body; stands over the status."""

KIND_BY_STATUS: dict[int, ClassifiedErrorKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    409: "server",
    429: "rate_limit",
    504: "timeout",
    529: "overloaded",
}
"""By HTTP status; other 4xx are `invalid`, other 5xx are `server`."""

KIND_BY_EXCEPTION: dict[str, ClassifiedErrorKind] = {
    "APITimeoutError": "timeout",
    "TimeoutException": "timeout",
    "APIConnectionError": "network",
    "TransportError": "network",
    "StreamError": "network",
    "JSONDecodeError": "network",
    "UnicodeDecodeError": "network",
    "APIResponseValidationError": "network",
}
"""By the name of an exception's class or of one of its bases, the nearest first."""

_SENTENCES: dict[ClassifiedErrorKind, str] = {
    "context_exceeded": "The conversation does not fit {label}'s context window{at}.",
    "auth": "{label} refused the API key{at}. Check the key in the worker's environment.",
    "rate_limit": "{label} limits the rate of requests{at}.",
    "quota": "The quota or credit at {label} is used up{at}.",
    "overloaded": "{label} is overloaded{at}.",
    "invalid": "{label} refused the request{at}{said}.",
    "network": "The connection to {label} failed{said}.",
    "timeout": "{label} did not answer in time{at}.",
    "aborted": "The call to {label} was aborted.",
    "server": "{label} had an internal error{at}.",
    "unknown": "{label} failed{at}{said}.",
}

_LABELS = {
    "anthropic": "Anthropic",
    "openai": "OpenAI",
    "openrouter": "OpenRouter",
    "cerebras": "Cerebras",
    "openai_compat": "the model server",
    "scripted": "the scripted model",
}

_SECRET = re.compile(r"\b(?:sk|key|csk|gsk|Bearer)[-_ ][\w*.-]{6,}", re.IGNORECASE)
_NO_CREDIT = re.compile(r"credit balance|exceeded your current quota|insufficient credits", re.I)
_SAID_MAX_CHARS = 300


@dataclass(frozen=True)
class Answer:
    """What a service said when a call failed; all of it optional."""

    status: int | None = None
    """HTTP status; 200 when the error came inside a stream."""
    codes: tuple[str, ...] = ()
    """Codes and types from the body, the most exact first."""
    message: str | None = None
    """The service's own sentence."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def classify_answer(provider: str, answer: Answer) -> ProviderFailure:
    """Return the failure that a service's answer means.

    `retry_after_ms` comes from the headers. `message` is one plain sentence; the service's own
    words stand in it only where they help (kinds `invalid` and `unknown`), without keys. `repair`
    is set when the service refused the history itself.

    Implements: PROV-05, ERR-07, ERR-08, K-ANTHROPIC-09, K-ANTHROPIC-10.
    """
    kind = _kind_of(answer)
    failure = _failure(
        provider,
        kind,
        # A stream that reports an error had status 200, which would only mislead.
        status=answer.status if answer.status is not None and answer.status >= 400 else None,
        said=answer.message,
        code=answer.codes[0] if answer.codes else None,
        retry_after_ms=retry_after_ms(answer.headers),
    )
    if kind != "invalid":
        return failure
    said = " ".join((answer.message or "", *answer.codes))
    repair = history_repair(_effective_status(answer), said)
    return failure if repair is None else failure.model_copy(update={"repair": repair})


def classify_exception(provider: str, error: Exception) -> ProviderFailure:
    """Return the failure that an exception of a vendor's SDK or HTTP library means.

    Implements: PROV-05, ERR-07.
    """
    status: Any = getattr(error, "status_code", None)
    body: Any = getattr(error, "body", None)
    if isinstance(status, int) or isinstance(body, Mapping):
        response: Any = getattr(error, "response", None)
        codes, said = read_error_body(body)
        return classify_answer(
            provider,
            Answer(
                status=status if isinstance(status, int) else None,
                codes=codes,
                message=said or (str(error) if body is None else None),
                headers=getattr(response, "headers", None) or {},
            ),
        )
    for base in type(error).__mro__:
        kind = KIND_BY_EXCEPTION.get(base.__name__)
        if kind is not None:
            return _failure(provider, kind, said=_network_reason(error), code=type(error).__name__)
    return _failure(provider, "unknown", said=str(error), code=type(error).__name__)


def truncated(provider: str) -> ProviderFailure:
    """Return the failure of a stream that ended without its terminal event (K-ANTHROPIC-02)."""
    return _failure(provider, "network", said="the stream ended early", code="truncated_stream")


def scripted_failure(
    provider: str, kind: ClassifiedErrorKind, *, status: int | None, message: str | None
) -> ProviderFailure:
    """Return a failure of a given kind, as a script file orders it."""
    made = _failure(provider, kind, status=status, said=message)
    return made.model_copy(update={"message": message}) if message is not None else made


def read_error_body(body: Any) -> tuple[tuple[str, ...], str | None]:
    """Return the codes (most exact first) and the message of an error body of either vendor.

    Takes `{"error": {...}}` as well as the inner object; anything else gives no codes.
    """
    if not isinstance(body, Mapping):
        return (), None
    outer = cast("Mapping[str, Any]", body)
    inner = outer.get("error")
    error = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else outer
    codes = tuple(
        str(value)
        for value in (error.get("code"), error.get("type"))
        if isinstance(value, str | int) and value not in ("", "error")
    )
    said = error.get("message")
    return codes, said if isinstance(said, str) else None


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return the delay that the headers ask for, in milliseconds; None when they ask for none.

    `retry-after-ms` stands over `retry-after`, which is seconds or an HTTP date.

    Implements: PROV-04.
    """
    lowered = {key.lower(): value for key, value in headers.items()}
    exact = _number(lowered.get("retry-after-ms"))
    if exact is not None:
        return round(exact)
    asked = lowered.get("retry-after")
    seconds = _number(asked)
    if seconds is not None:
        return round(seconds * 1000)
    until = _date(asked)
    if until is None:
        return None
    # The server's clock, so that a wrong one of ours does not matter.
    now = _date(lowered.get("date")) or datetime.now(UTC)
    return max(0, round((until - now).total_seconds() * 1000))


def _kind_of(answer: Answer) -> ClassifiedErrorKind:
    message = answer.message or ""
    for code in answer.codes:
        known = KIND_BY_CODE.get(code)
        # Where the status says more than a generic type, the status stands.
        if known is not None and not (known == "server" and (answer.status or 0) >= 400):
            return known
    status = _effective_status(answer)
    if status in (None, 400, 413, 422) and matches_context_exceeded(message):
        return "context_exceeded"
    if status in (None, 400, 402, 403, 429) and _NO_CREDIT.search(message):
        return "quota"
    if status is not None:
        fallback: ClassifiedErrorKind = "server" if status >= 500 else "invalid"
        return KIND_BY_STATUS.get(status, fallback)
    return "invalid" if "invalid_request_error" in answer.codes else "unknown"


def _effective_status(answer: Answer) -> int | None:
    """Return the HTTP status, or the one that a stream's error object carries as its code."""
    if answer.status is not None and answer.status >= 400:
        return answer.status
    numbers = [int(code) for code in answer.codes if code.isdecimal() and len(code) == 3]
    return next((number for number in numbers if number >= 400), None)


def _failure(
    provider: str,
    kind: ClassifiedErrorKind,
    *,
    status: int | None = None,
    said: str | None = None,
    code: str | None = None,
    retry_after_ms: int | None = None,
) -> ProviderFailure:
    words = _plain(said)
    sentence = _SENTENCES[kind].format(
        label=_LABELS.get(provider, provider),
        at=f" (HTTP {status})" if status is not None else "",
        said=f": {words}" if words else "",
    )
    return ProviderFailure(
        kind=kind,
        message=sentence[0].upper() + sentence[1:],
        retryable=kind in RETRYABLE_KINDS,
        retry_after_ms=retry_after_ms,
        status=status,
        provider=provider,
        provider_code=code,
    )


def _plain(said: str | None) -> str:
    """Return a service's words as one line without keys; nothing when they are JSON or markup."""
    line = " ".join((said or "").split())
    if line.startswith(("{", "[", "<")):
        return ""
    return _SECRET.sub("[key removed]", line)[:_SAID_MAX_CHARS].rstrip(". ")


def _network_reason(error: Exception) -> str:
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"JSONDecodeError", "UnicodeDecodeError", "APIResponseValidationError"}:
        return "an event of the stream could not be read"
    cause = error.__cause__
    return str(cause) if cause is not None and str(cause) else str(error)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None


def _date(value: str | None) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value) if value is not None else None
    except ValueError:
        return None
    return parsed if parsed is None or parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
