"""Every error, and the classes of a provider's failure.

AgentError                       code, message, details; survives a JSON round trip
├── UsageError                   the caller's fault: fix the call
│   ├── UnknownAgentError
│   ├── UnknownModelError        unknown provider, or no model given
│   ├── MissingKeyError          a provider's key is not in the worker's environment
│   ├── InvalidRequestError      a field of a request, a script file, a behavior
│   └── SessionBusyError         the session has an open run
├── AgentAbortedError
├── AgentBudgetExceededError     limit: cost, tokens, wallClock
├── AgentToolPairingError        repairs
├── AgentLengthResumeExhaustedError
├── AgentPauseExhaustedError     the provider's own tools paused without end
├── OperationTimeoutError        a fail-closed hook or a set-up step
├── AgentProviderError           provider, provider_code, retryable
├── AgentContextExceededError
├── AgentOutputError             no answer fitted the schema; attempts, reasons, last
├── DecisionError                reason: why a decision gave no answers
├── StoreError                   out of reach, damaged, or of a newer schema
├── ServerUnreachableError       no Temporal server answers
└── InternalError                ours: report it
"""

from typing import ClassVar, Literal, Self

from pydantic import JsonValue

from zidane_core.values import Json, Value


class AgentError(Exception):
    """Base of all our errors.

    Args:
        message: What happened, with which value, and what to do.
        details: Facts for programs, JSON only.

    Implements: ERR-09.
    """

    code: ClassVar[str] = "AgentError"

    def __init__(self, message: str, **details: JsonValue) -> None:
        super().__init__(message)
        self.message = message
        self.details: Json = details

    def to_dict(self) -> Json:
        """Return the error as JSON: `type`, `message` and `details` when there are any."""
        base: Json = {"type": self.code, "message": self.message}
        return {**base, "details": self.details} if self.details else base

    @classmethod
    def from_dict(cls, packed: Json) -> "AgentError":
        """Return the error that `to_dict` wrote, of the same class; AgentError if unknown."""
        kind, message, details = packed.get("type"), packed.get("message"), packed.get("details")
        found = _BY_CODE.get(str(kind), AgentError)
        error = found.__new__(found)
        AgentError.__init__(error, str(message), **(details if isinstance(details, dict) else {}))
        return error

    def __init_subclass__(cls) -> None:
        cls.code = cls.__name__
        _BY_CODE[cls.__name__] = cls


_BY_CODE: dict[str, type[AgentError]] = {"AgentError": AgentError}


class UsageError(AgentError):
    """The caller's fault."""


class UnknownAgentError(UsageError):
    """No agent of that name is registered on the worker."""


class UnknownModelError(UsageError):
    """The model or its provider is not known."""


class MissingKeyError(UsageError):
    """A provider's key is not in the worker's environment."""


class InvalidRequestError(UsageError):
    """A field of a request is wrong."""


class SessionBusyError(UsageError):
    """The session already has an open run (RUN-01, DUR-05)."""


class AgentAbortedError(AgentError):
    """The run was aborted."""


BudgetLimit = Literal["cost", "tokens", "wallClock"]


class AgentBudgetExceededError(AgentError):
    """A run budget was crossed (ERR-01, BUD-01 to BUD-03). `details["limit"]` says which."""

    @classmethod
    def over(cls, limit: BudgetLimit, *, spent: float, allowed: float) -> Self:
        """Return the error for a budget of `allowed` (USD, tokens or milliseconds)."""
        unit = {"cost": "USD", "tokens": "tokens", "wallClock": "ms"}[limit]
        return cls(
            f"Run budget exceeded: {spent:g} {unit} spent, {allowed:g} allowed. "
            "Raise the budget in behavior, or start another run on the session.",
            limit=limit,
            spent=spent,
            allowed=allowed,
        )


class AgentToolPairingError(AgentError):
    """The wire view needed repairs that strict pairing forbids (ERR-02, SESS-12, SESS-13)."""


class AgentLengthResumeExhaustedError(AgentError):
    """Resumed turns gave neither text nor a call, twice in a row (ERR-03, LOOP-10)."""


class AgentPauseExhaustedError(AgentError):
    """The model paused inside its provider's own tools too often in a row (K-ANTHROPIC-03)."""


class OperationTimeoutError(AgentError):
    """A fail-closed hook or a set-up step took too long (ERR-04, HOOK-05)."""


class AgentProviderError(AgentError):
    """A model call failed for good (ERR-06)."""


class AgentContextExceededError(AgentError):
    """The conversation no longer fits the model's window (ERR-06)."""


class AgentOutputError(AgentError):
    """No answer of the run fitted its schema (OUT-02).

    `details`: `attempts`, `reasons` (one line per refused answer), `last` (the last raw output).
    """


class DecisionError(AgentError):
    """A decision gave no answers (ERR-05, DEC-01). `details`: reason, decision_id and others."""


class StoreError(AgentError):
    """The session store is out of reach, damaged, or of a newer schema."""


class ServerUnreachableError(AgentError):
    """No Temporal server answers."""


class InternalError(AgentError):
    """A fault of ours."""


ClassifiedErrorKind = Literal[
    "context_exceeded",
    "auth",
    "rate_limit",
    "quota",
    "overloaded",
    "invalid",
    "network",
    "timeout",
    "aborted",
    "server",
    "unknown",
]


HistoryRepairKind = Literal["thinking", "media", "history", "long"]
"""What a request leaves out of a history that a provider refused: replayed reasoning, images and
documents, both together with server tool blocks, or (a context too long) all but the head of
long texts, arguments and results."""


class ProviderFailure(Value):
    """A failed model call, classified once, as it goes to the loop.

    Implements: ERR-07, PROV-05, PROV-06.
    """

    kind: ClassifiedErrorKind
    message: str
    """One plain sentence for people, without keys or raw JSON."""
    retryable: bool = False
    """Whether the provider says that the same request may succeed later."""
    retry_after_ms: int | None = None
    """What the server asked for; None when it did not say."""
    status: int | None = None
    """HTTP status, when there was an answer."""
    provider: str | None = None
    provider_code: str | None = None
    streamed: bool = False
    """Text or tool-call content had arrived; it is void once another attempt is made."""
    discarded_thinking: int = 0
    """Characters of reasoning that the failed attempt had streamed."""
    server_tool_ran: bool = False
    """A tool of the provider's own had run, and was charged: no retry by itself (PROV-06)."""
    repair: HistoryRepairKind | None = None
    """The provider refused the history itself, and leaving this out may mend it. Never `long`:
    that follows from the kind `context_exceeded`."""


class ProviderError(Exception):
    """Raised by a provider; carries the classified failure."""

    def __init__(self, failure: ProviderFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


CONTEXT_EXCEEDED_MESSAGE_PATTERNS: tuple[str, ...] = (
    "prompt is too long",
    "context_length_exceeded",
    "context length exceeded",
    "maximum context length",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
    "input is too long for requested model",
    "too many tokens",
    "model_context_window_exceeded",
    "reduce the length of the messages",
)
"""Lower-case parts of messages with which providers say that the context is too long (ERR-08)."""


def matches_context_exceeded(message: str) -> bool:
    """Say whether a provider's message means that the context is too long (ERR-08)."""
    lowered = message.lower()
    return any(pattern in lowered for pattern in CONTEXT_EXCEEDED_MESSAGE_PATTERNS)
