"""After a failed model call: try again, move to the next target, park, or fail."""

from dataclasses import dataclass

from zidane_core.behavior import RetryConfig
from zidane_core.errors import (
    AgentContextExceededError,
    AgentError,
    AgentProviderError,
    ProviderFailure,
)
from zidane_core.runs import OnProviderFailure

PARKING_KINDS = frozenset(
    {"auth", "quota", "rate_limit", "overloaded", "network", "timeout", "server"}
)
"""Failures that a person or time can mend; the others would fail again the same way."""


@dataclass(frozen=True)
class Retry:
    """Try the same target again after a delay."""

    delay_ms: int


@dataclass(frozen=True)
class Fallback:
    """Go on with the next target, at once."""

    target: int


@dataclass(frozen=True)
class Park:
    """Wait for `resume`; says why in one sentence."""

    reason: str


@dataclass(frozen=True)
class Fail:
    """End the run with this error."""

    error: AgentError


Verdict = Retry | Fallback | Park | Fail


def after_failure(
    failure: ProviderFailure,
    *,
    tries: int,
    target: int,
    targets: int,
    retry: RetryConfig,
    on_failure: OnProviderFailure,
    random: float,
) -> Verdict:
    """Decide what follows a failed model call.

    Text that the attempt had streamed does not stand in the way of another one: it is kept as
    an aborted turn, voided for watchers, and no tool of it has run. A tool of the provider's own
    that ran does: it was charged and may have acted, so a person decides (PROV-06).

    Args:
        failure: The classified failure.
        tries: Attempts on this target since the turn began or the run was resumed, this one
            included.
        target: Index of the target that failed.
        targets: How many there are.
        retry: Attempts and delays.
        on_failure: What to do when targets are spent.
        random: A number in [0, 1) for the jitter.

    Implements: PROV-03, PROV-04, PROV-05, PROV-06, PROV-10.
    """
    if not failure.server_tool_ran:
        if failure.retryable and tries < retry.max_attempts:
            return Retry(_delay_ms(failure, tries=tries, retry=retry, random=random))
        if target + 1 < targets:
            return Fallback(target + 1)
    if on_failure == "park" and failure.kind in PARKING_KINDS:
        return Park(failure.message)
    kind = AgentContextExceededError if failure.kind == "context_exceeded" else AgentProviderError
    return Fail(
        kind(
            failure.message,
            kind=failure.kind,
            provider=failure.provider,
            provider_code=failure.provider_code,
            retryable=failure.retryable,
        )
    )


def _delay_ms(failure: ProviderFailure, *, tries: int, retry: RetryConfig, random: float) -> int:
    if failure.retry_after_ms is not None:
        return min(failure.retry_after_ms, retry.max_delay_ms)
    ceiling = min(retry.initial_delay_ms * 2 ** (tries - 1), retry.max_delay_ms)
    return int(ceiling * random)
