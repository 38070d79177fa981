"""What the model is told after a turn, by all rules that only advise, in one order (LOOP-16)."""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import ResultFacts
from zidane_core.rules import nudges, output_budget, progress, turn_warning
from zidane_core.rules.nudges import RecoveryNudges, UnknownCall
from zidane_core.rules.output_budget import TurnOutput
from zidane_core.rules.progress import ProgressState, SettledCall
from zidane_core.rules.turn_warning import WarningGiven
from zidane_core.rules.verdicts import Nudge, RuleEvent
from zidane_core.values import Value

MAX_PENDING = 64
"""Nudges that wait for the end of a turn; a tool budget gives one per tool and run."""


class AdviceState(Value):
    """What the advising rules remember of a run; constant in size."""

    output: TurnOutput = TurnOutput()
    recovery: RecoveryNudges = RecoveryNudges()
    progress: ProgressState = ProgressState()
    warning: WarningGiven = WarningGiven()
    pending: tuple[Nudge, ...] = ()
    """Nudges of the gates, for the end of the turn; at most 64."""


@dataclass(frozen=True)
class SettledTurn:
    """A turn whose calls all have their results."""

    turn_id: str
    turns: int
    """Model turns so far."""
    calls: tuple[SettledCall, ...] = ()
    """In the model's order; empty for an answer."""
    text_call: str | None = None
    """The tool that the turn's text calls in writing."""
    may_go_on: bool = True
    """False when the run ends here whatever is said: an ending, a budget, the cap on turns."""
    goes_on: bool = True
    """Whether the model is called again anyway: results, a recovery, or queued messages."""


@dataclass(frozen=True)
class Advised:
    """The state, and the turns to inject, in order."""

    state: AdviceState
    nudges: tuple[Nudge, ...] = ()
    events: tuple[RuleEvent, ...] = ()


def with_pending(state: AdviceState, given: tuple[Nudge, ...]) -> AdviceState:
    """Keep nudges of the gates for the end of the turn."""
    if not given:
        return state
    return state.model_copy(update={"pending": (*state.pending, *given)[:MAX_PENDING]})


def after_call(
    state: AdviceState, behavior: AgentBehavior, *, tool: str, result: ResultFacts
) -> AdviceState:
    """Count the result of a call that ran or was replayed."""
    spent = output_budget.after_call(state.output, behavior, tool=tool, result=result)
    return state if spent is state.output else state.model_copy(update={"output": spent})


def after_turn(state: AdviceState, behavior: AgentBehavior, turn: SettledTurn) -> Advised:
    """Say what follows a turn; call it once per turn, when its last call has settled.

    Order: tool output, tool budgets, unknown tools, a call written as text, progress, the turn
    warning. Only a call written as text keeps a run alive that would end; where a run ends the
    counts go on and nothing is said, but events are kept.

    Implements: LOOP-16, CTL-12, NUDGE-01, NUDGE-04, NUDGE-06, NUDGE-09, LOOP-03.
    """
    loud = output_budget.after_turn(state.output, behavior, turn_id=turn.turn_id)
    rescue = behavior.text_tool_call_rescue if turn.may_go_on else None
    text = nudges.text_tool_call(
        state.recovery, rescue, tool=turn.text_call, has_calls=bool(turn.calls)
    )
    goes_on = turn.may_go_on and (turn.goes_on or bool(text.nudges))
    unknown = nudges.unknown_tools(
        text.state, behavior.unknown_tool_recovery if goes_on else None, _unknown(turn)
    )
    still = progress.after_turn(
        state.progress, behavior.progress_nudges if goes_on else None, turn.calls
    )
    warned = turn_warning.after_turn(state.warning, behavior, turns=turn.turns, goes_on=goes_on)
    told = (
        *_all_of(loud.nudge),
        *state.pending,
        *unknown.nudges,
        *text.nudges,
        *_all_of(still.nudge, warned.nudge),
    )
    return Advised(
        AdviceState(
            output=loud.state,
            recovery=unknown.state,
            progress=still.state,
            warning=warned.state,
        ),
        told if goes_on else (),
        () if loud.event is None else (loud.event,),
    )


def _unknown(turn: SettledTurn) -> tuple[UnknownCall, ...]:
    return tuple(
        UnknownCall(called=call.tool, suggestions=call.facts.closest)
        for call in turn.calls
        if call.facts.is_unknown
    )


def _all_of(*given: Nudge | None) -> tuple[Nudge, ...]:
    return tuple(nudge for nudge in given if nudge is not None)
