"""What becomes of a call that is about to start: dedup, then tool budgets, then the repeat guard.

The loop asks in the model's order, once per call, when the call is next to start; whatever the
answer, the call then has been counted. Gates of the host come later, in the call's activity.
"""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import CallFacts, ResultFacts
from zidane_core.rules import dedup, guards, tool_budgets
from zidane_core.rules.dedup import DedupCall, DedupState
from zidane_core.rules.guards import GuardState
from zidane_core.rules.tool_budgets import ToolBudgetState
from zidane_core.rules.verdicts import (
    Abort,
    Allow,
    Block,
    Nudge,
    Prior,
    RecordedCall,
    Replay,
    RuleEvent,
    Steer,
    Verdict,
)
from zidane_core.values import Value


class GateState(Value):
    """What the gates remember of a run; each part says its bound."""

    dedup: DedupState = DedupState()
    budgets: ToolBudgetState = ToolBudgetState()
    guard: GuardState = GuardState()


@dataclass(frozen=True)
class GateCall:
    """A call before the gates."""

    turn_id: str
    call_id: str
    tool: str
    """Canonical name, or the unknown one."""
    turn: int
    """The run's turn, from 1."""
    index: int
    """Place among the turn's calls."""
    group: int
    """From `dedup.groups`."""
    facts: CallFacts

    @property
    def at(self) -> str:
        """Turn and place; unique in the run, also when a model uses an id again."""
        return f"{self.turn}.{self.index}"

    @property
    def as_dedup(self) -> DedupCall:
        """The call as dedup sees it."""
        return DedupCall(
            tool=self.tool,
            key=self.facts.dedup_key,
            turn=self.turn,
            index=self.index,
            group=self.group,
            at=RecordedCall(turn_id=self.turn_id, call_id=self.call_id),
        )


@dataclass(frozen=True)
class Gated:
    """The answer for one call."""

    state: GateState
    verdict: Verdict
    nudges: tuple[Nudge, ...] = ()
    """Injected turns that follow the results of the call's turn."""
    events: tuple[RuleEvent, ...] = ()


def at_gate(state: GateState, behavior: AgentBehavior, call: GateCall) -> Gated:
    """Decide on one call, in the order of TOOL-06.

    A budget refuses a replay like any other call; the guard never counts one, save for cycles
    and the loose limit. An abort leaves the state as it was.

    Implements: TOOL-06, DEDUP-03, NUDGE-01, NUDGE-03, GUARD-08, K-REPEAT-05.
    """
    recorded = dedup.at_gate(state.dedup, call.as_dedup)
    budgeted = tool_budgets.at_gate(
        state.budgets,
        behavior.tool_budgets,
        tool=call.tool,
        call_id=call.call_id,
        said=call.facts.budget,
        prior=None if recorded is None else "replayed",
    )
    refusal = budgeted.verdict if isinstance(budgeted.verdict, Block) else None
    guarded = guards.at_gate(
        state.guard,
        behavior.repeat_guard,
        tool=call.tool,
        at=call.at,
        facts=call.facts,
        prior=_prior(refusal, recorded),
    )
    if isinstance(guarded.verdict, Abort):
        return Gated(state, guarded.verdict, events=_all_of(guarded.event))
    return Gated(
        state.model_copy(update={"budgets": budgeted.state, "guard": guarded.state}),
        _merged(guarded.verdict, refusal, recorded),
        () if budgeted.nudge is None else (budgeted.nudge,),
        _all_of(budgeted.event, guarded.event),
    )


def after_call(
    state: GateState, behavior: AgentBehavior, call: GateCall, result: ResultFacts
) -> GateState:
    """Take the result of a call that ran, or was replayed, into account.

    Not for a call that the loop answered itself: a blocked, skipped or cancelled one.

    Implements: DEDUP-04, DEDUP-05, K-REPEAT-02.
    """
    guard = guards.after_call(state.guard, behavior.repeat_guard, at=call.at, result=result)
    known = dedup.after_call(state.dedup, call.as_dedup, result)
    return state.model_copy(update={"guard": guard, "dedup": known})


def _prior(refusal: Block | None, recorded: RecordedCall | None) -> Prior | None:
    if refusal is not None:
        return "blocked"
    return None if recorded is None else "replayed"


def _merged(
    guarded: Allow | Steer | Block, refusal: Block | None, recorded: RecordedCall | None
) -> Verdict:
    if refusal is not None:
        return refusal
    if isinstance(guarded, Block) or recorded is None:
        return guarded
    return Replay(recorded, guarded.wording if isinstance(guarded, Steer) else None)


def _all_of(*events: RuleEvent | None) -> tuple[RuleEvent, ...]:
    return tuple(event for event in events if event is not None)
