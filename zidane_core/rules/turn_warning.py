"""Is the run about to reach its cap on turns: tell the model once, in time to wrap up."""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import Wording
from zidane_core.rules.verdicts import Nudge
from zidane_core.values import Value


class WarningGiven(Value):
    """Whether the warning was given in this run."""

    is_given: bool = False


@dataclass(frozen=True)
class TurnWarned:
    """The state, and the warning when it is due."""

    state: WarningGiven
    nudge: Nudge | None = None


def after_turn(
    state: WarningGiven, behavior: AgentBehavior, *, turns: int, goes_on: bool
) -> TurnWarned:
    """Warn after the turn that leaves exactly `max_turns_warning` turns.

    Args:
        state: Whether the warning was given.
        behavior: The cap, the warning and its text.
        turns: Model turns so far.
        goes_on: Whether another turn follows anyway; a warning keeps no run alive.

    Implements: LOOP-03, LOOP-04.
    """
    cap, left = behavior.max_turns, behavior.max_turns_warning
    is_due = cap is not None and left is not None and left < cap and cap - turns == left
    if cap is None or left is None or not is_due or state.is_given or not goes_on:
        return TurnWarned(state)
    nudge = Nudge(reason="turn-warning", wording=_wording(behavior, cap, left))
    return TurnWarned(WarningGiven(is_given=True), nudge)


def _wording(behavior: AgentBehavior, cap: int, left: int) -> Wording:
    message = behavior.max_turns_warning_message
    if isinstance(message, str):
        return Wording(text=message)
    turns = "One turn is" if left == 1 else f"{left} turns are"
    text = (
        f"{turns} left of the {cap} that this run may take. Wrap up now: finish what is half done, "
        "and give your answer, with what is still open, before they are used up."
    )
    if message is None:
        return Wording(text=text)
    return Wording(
        text=text,
        callable=message.callable,
        arguments={"max_turns": cap, "remaining": left},
    )
