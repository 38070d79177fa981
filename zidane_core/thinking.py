"""How much a model reasons: the budgets of the levels, and how a budget shrinks over a run.

On Anthropic the budget is part of the key of the prompt cache: a request with another budget
reads nothing from it and pays for the whole prompt again. So what a schedule costs is the number
of its distinct values: a step one rewrite, a geometric curve one for each value on the way down,
a callable that never repeats itself one per turn. Prefer the step (THNK-09).
"""

from collections.abc import Mapping
from types import MappingProxyType

from zidane_core.behavior import ThinkingDecay, ThinkingLevel

LEVEL_BUDGETS: Mapping[ThinkingLevel, int] = MappingProxyType(
    {
        "minimal": 1_024,
        "low": 4_096,
        "medium": 10_240,
        "high": 32_768,
        "xhigh": 49_152,
        "max": 65_536,
    }
)
"""Tokens of a level, least first, for models that take budgets only (THNK-01). Not in it: `off`,
which is none, and `adaptive`, which leaves it to the model."""


def level_budget(level: ThinkingLevel) -> int:
    """Return the tokens of a level; `adaptive` counts as `medium`, `off` is 0."""
    return 0 if level == "off" else LEVEL_BUDGETS.get(level, LEVEL_BUDGETS["medium"])


def nearest_level(budget: int) -> ThinkingLevel:
    """Return the highest level that the budget pays for, at least `minimal`.

    For models that take levels and no budgets.
    """
    nearest: ThinkingLevel = "minimal"
    for level, tokens in LEVEL_BUDGETS.items():
        if tokens <= budget:
            nearest = level
    return nearest


def decayed_budget(base: int, decay: ThinkingDecay, run_turn: int) -> int:
    """Return the thinking budget of a turn in tokens.

    Args:
        base: The budget without decay.
        decay: A step, or with a factor a geometric curve.
        run_turn: The turn's number in the run, from 1.

    Implements: THNK-05, THNK-06.
    """
    past = run_turn - decay.after_turn
    if past <= 0:
        return base
    if decay.factor is None:
        return min(base, decay.floor)
    return min(base, max(decay.floor, int(base * decay.factor**past)))


def applies_decay(level: ThinkingLevel, *, adaptive_is_envelope: bool) -> bool:
    """Say whether a budget decays: not where it caps the whole answer (THNK-08)."""
    return level != "off" and not (level == "adaptive" and adaptive_is_envelope)
