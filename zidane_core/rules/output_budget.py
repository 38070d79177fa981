"""Did a turn's tools say too much: text bytes of one turn's results against a soft cap."""

from dataclasses import dataclass

from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import ResultFacts, Wording
from zidane_core.rules.verdicts import Nudge, RuleEvent
from zidane_core.values import Value


class TurnOutput(Value):
    """What the tools of the turn at work have said so far."""

    text_bytes: int = 0
    """After `tool:transform` and after a large result was put aside (G-12, G-48)."""


@dataclass(frozen=True)
class OutputChecked:
    """The state of the next turn, and what follows this one."""

    state: TurnOutput
    nudge: Nudge | None = None
    event: RuleEvent | None = None


def after_call(
    state: TurnOutput, behavior: AgentBehavior, *, tool: str, result: ResultFacts
) -> TurnOutput:
    """Count a call's result, whether it is an error or not.

    Implements: NUDGE-04, NUDGE-05.
    """
    if tool in behavior.tool_output_budget_exclude_tools:
        return state
    return TurnOutput(text_bytes=state.text_bytes + max(0, result.text_bytes))


def after_turn(state: TurnOutput, behavior: AgentBehavior, *, turn_id: str) -> OutputChecked:
    """Check a turn whose calls have all settled, and begin the next count.

    A budget that is reached exactly is not crossed. Call it once per turn, also when nothing
    follows: it is what sets the count back.

    Implements: NUDGE-04.
    """
    budget, spent = behavior.tool_output_budget, state.text_bytes
    if budget is None or spent <= budget:
        return OutputChecked(TurnOutput())
    text = (
        f"The tools of your last turn returned {spent} bytes of text, more than the {budget} that "
        "a turn should load. Before you call more tools, sum up what you learned in a few "
        "sentences; then ask for less at a time."
    )
    return OutputChecked(
        TurnOutput(),
        Nudge(reason="tool-output-budget", wording=Wording(text=text)),
        RuleEvent("budget:exceeded", {"turn_id": turn_id, "bytes": spent, "budget": budget}),
    )
