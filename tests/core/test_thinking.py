"""Levels, budgets and their decay."""

from itertools import pairwise
from typing import get_args

import pytest

from zidane_core.behavior import ThinkingDecay, ThinkingLevel
from zidane_core.thinking import (
    LEVEL_BUDGETS,
    applies_decay,
    decayed_budget,
    level_budget,
    nearest_level,
)

GEOMETRIC = ThinkingDecay(after_turn=5, factor=0.5, floor=1_024)
STEP = ThinkingDecay(after_turn=5, floor=1_024)


def _schedule(decay: ThinkingDecay, base: int = 8_192, turns: int = 12) -> list[int]:
    return [decayed_budget(base, decay, turn) for turn in range(1, turns + 1)]


def test_each_level_has_more_tokens_than_the_one_below() -> None:
    """THNK-01."""
    assert dict(LEVEL_BUDGETS) == {
        "minimal": 1_024,
        "low": 4_096,
        "medium": 10_240,
        "high": 32_768,
        "xhigh": 49_152,
        "max": 65_536,
    }
    assert set(get_args(ThinkingLevel)) - set(LEVEL_BUDGETS) == {"off", "adaptive"}


def test_a_level_without_tokens_of_its_own_has_those_of_medium_and_off_has_none() -> None:
    """THNK-01."""
    assert [level_budget(level) for level in ("off", "adaptive", "max")] == [0, 10_240, 65_536]


@pytest.mark.parametrize(
    ("budget", "level"),
    [(1, "minimal"), (1_024, "minimal"), (4_095, "minimal"), (4_096, "low"), (10**9, "max")],
)
def test_a_budget_is_the_highest_level_that_it_pays_for(budget: int, level: ThinkingLevel) -> None:
    """THNK-02."""
    assert nearest_level(budget) == level


def test_a_step_keeps_the_whole_budget_and_then_the_floor() -> None:
    """THNK-05."""
    assert _schedule(STEP) == [8_192] * 5 + [1_024] * 7


def test_a_geometric_curve_halves_each_turn_down_to_the_floor() -> None:
    """THNK-06: the row's own check."""
    assert _schedule(GEOMETRIC) == [8_192] * 5 + [4_096, 2_048] + [1_024] * 5


def test_a_decay_never_raises_a_budget_that_is_below_its_floor() -> None:
    """THNK-05, THNK-06."""
    assert set(_schedule(STEP, base=512)) == {512}
    assert set(_schedule(GEOMETRIC, base=512)) == {512}


def test_a_long_run_stays_at_the_floor() -> None:
    """THNK-06: the power neither overflows nor reaches zero."""
    assert decayed_budget(8_192, GEOMETRIC, 100_000) == 1_024


@pytest.mark.parametrize(("decay", "rewrites"), [(STEP, 1), (GEOMETRIC, 3)])
def test_a_schedule_costs_a_cache_rewrite_for_each_new_value(
    decay: ThinkingDecay, rewrites: int
) -> None:
    """THNK-09: which is why the step is preferred."""
    budgets = _schedule(decay, turns=100)
    assert sum(new != old for old, new in pairwise(budgets)) == rewrites
    assert len(set(budgets)) - 1 == rewrites


@pytest.mark.parametrize(
    ("level", "is_envelope", "applies"),
    [
        ("off", False, False),
        ("adaptive", True, False),
        ("adaptive", False, True),
        ("high", True, True),
        ("high", False, True),
    ],
)
def test_a_budget_that_caps_the_whole_answer_does_not_decay(
    level: ThinkingLevel, is_envelope: bool, applies: bool
) -> None:
    """THNK-08."""
    assert applies_decay(level, adaptive_is_envelope=is_envelope) is applies
