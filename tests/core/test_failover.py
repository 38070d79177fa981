import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loop_driver import failure
from zidane_core.behavior import RetryConfig
from zidane_core.errors import AgentContextExceededError, AgentProviderError, ProviderFailure
from zidane_core.rules.failover import PARKING_KINDS, Fail, Fallback, Park, Retry, after_failure


def after(why: ProviderFailure, **changes: Any):
    """What follows a failure: by default the first of three tries on the only target."""
    facts: dict[str, Any] = {
        "tries": 1,
        "target": 0,
        "targets": 1,
        "retry": RetryConfig(),
        "on_failure": "park",
        "random": 0.5,
    }
    return after_failure(why, **{**facts, **changes})


@pytest.mark.parametrize(
    ("value", "attempts"),
    [(1, 1), (2, 2), (3.0, 3), (0, 3), (-2, 3), (math.nan, 3), (math.inf, 3), (2.5, 3)],
)
def test_odd_attempt_counts_are_the_default(value: float, attempts: int):
    """PROV-03."""
    assert RetryConfig.model_validate({"max_attempts": value}).max_attempts == attempts


def test_the_defaults_are_three_attempts_a_second_and_half_a_minute():
    """PROV-03, PROV-04."""
    assert RetryConfig() == RetryConfig(max_attempts=3, initial_delay_ms=1000, max_delay_ms=30_000)


def test_a_retryable_failure_is_tried_again_until_the_attempts_are_spent():
    """PROV-03."""
    assert isinstance(after(failure(), tries=1), Retry)
    assert isinstance(after(failure(), tries=2), Retry)
    assert isinstance(after(failure(), tries=3), Park)


def test_what_is_not_called_retryable_is_not_tried_again():
    """PROV-05."""
    assert isinstance(after(failure(retryable=False)), Park)


@given(st.integers(1, 12), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_jittered_under_a_doubling_and_capped_ceiling(tries: int, random: float):
    """PROV-04: full jitter."""
    made = after(failure(), tries=tries, random=random, retry=RetryConfig(max_attempts=99))
    assert isinstance(made, Retry)
    ceiling = min(1000 * 2 ** (tries - 1), 30_000)
    assert 0 <= made.delay_ms <= ceiling
    assert made.delay_ms == int(ceiling * random)


@pytest.mark.parametrize(("asked", "waits"), [(0, 0), (700, 700), (90_000, 30_000)])
def test_the_servers_own_delay_is_honoured_up_to_the_cap(asked: int, waits: int):
    """PROV-04."""
    assert after(failure(retry_after_ms=asked)) == Retry(waits)


def test_a_spent_target_gives_way_to_the_next_one():
    """PROV-10."""
    assert after(failure("auth", retryable=False), targets=3) == Fallback(1)
    assert after(failure("auth", retryable=False), target=1, targets=3) == Fallback(2)
    assert isinstance(after(failure("auth", retryable=False), target=2, targets=3), Park)


@pytest.mark.parametrize(
    "kind",
    ["auth", "quota", "rate_limit", "overloaded", "network", "timeout", "server"],
)
def test_outages_park_the_run_unless_it_is_to_fail(kind: Any):
    why = failure(kind, retryable=False)
    assert kind in PARKING_KINDS
    assert after(why) == Park(f"it is {kind}")
    failed = after(why, on_failure="fail")
    assert isinstance(failed, Fail)
    assert type(failed.error) is AgentProviderError
    assert failed.error.details["kind"] == kind


@pytest.mark.parametrize("kind", ["invalid", "context_exceeded", "aborted", "unknown"])
def test_what_waiting_cannot_mend_fails_the_run(kind: Any):
    failed = after(failure(kind, retryable=False))
    assert isinstance(failed, Fail)
    is_context = isinstance(failed.error, AgentContextExceededError)
    assert is_context == (kind == "context_exceeded")
