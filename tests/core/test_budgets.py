import math

import pytest

from zidane_core.behavior import AgentBehavior, parse_behavior
from zidane_core.rules.budgets import Spend, bounded_timeout_ms, exceeded
from zidane_core.usage import TurnUsage


def test_nothing_is_exceeded_without_budgets():
    """BUD-01 to BUD-03: unbounded by default."""
    assert exceeded(AgentBehavior(), Spend(cost_usd=1e9, tokens=10**12), elapsed_ms=10**12) is None


@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["max_cost_usd", "max_total_tokens", "max_wall_ms"])
def test_zero_negative_and_non_finite_budgets_are_off(field: str, value: float):
    """BUD-01, BUD-02, BUD-03."""
    assert getattr(AgentBehavior.model_validate({field: value}), field) is None


def test_a_budget_that_is_no_number_is_refused():
    with pytest.raises(Exception, match="max_cost_usd"):
        parse_behavior({"max_cost_usd": "lots"})


@pytest.mark.parametrize(
    ("behavior", "limit"),
    [
        (AgentBehavior(max_cost_usd=1.0), "cost"),
        (AgentBehavior(max_total_tokens=100), "tokens"),
        (AgentBehavior(max_wall_ms=1000), "wallClock"),
    ],
)
def test_a_budget_is_crossed_above_it_and_not_at_it(behavior: AgentBehavior, limit: str):
    """BUD-01 to BUD-04, ERR-01."""
    assert exceeded(behavior, Spend(cost_usd=1.0, tokens=100), elapsed_ms=1000) is None
    error = exceeded(behavior, Spend(cost_usd=1.01, tokens=101), elapsed_ms=1001)
    assert error is not None
    assert error.details["limit"] == limit
    assert error.to_dict()["type"] == "AgentBudgetExceededError"


def test_the_first_crossed_budget_is_named_cost_before_tokens_before_time():
    behavior = AgentBehavior(max_cost_usd=1, max_total_tokens=1, max_wall_ms=1)
    spend = Spend(cost_usd=2, tokens=2)
    error = exceeded(behavior, spend, elapsed_ms=2)
    assert error is not None
    assert error.details == {"limit": "cost", "spent": 2.0, "allowed": 1.0}


def test_cache_tokens_do_not_count_and_a_missing_cost_adds_nothing():
    """BUD-01, BUD-02: inert when the provider reports no cost."""
    usage = TurnUsage(input=3, output=4, cache_read=1000, cache_creation=1000)
    assert Spend().plus(usage) == Spend(cost_usd=0, tokens=7)
    assert Spend(cost_usd=1).plus(TurnUsage(cost=0.5)).cost_usd == 1.5


@pytest.mark.parametrize(
    ("timeout_ms", "wall", "bound"),
    [(0, None, 0), (500, None, 500), (0, 300, 300), (500, 300, 300), (200, 300, 200)],
)
def test_the_time_budget_bounds_time_limits_when_lower(
    timeout_ms: int, wall: int | None, bound: int
):
    """BUD-05."""
    assert bounded_timeout_ms(timeout_ms, wall) == bound
