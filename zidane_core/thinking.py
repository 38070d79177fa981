"""How much a model reasons: the budgets of the levels, and how a budget shrinks over a run."""

from zidane_core.behavior import ThinkingDecay, ThinkingLevel


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
