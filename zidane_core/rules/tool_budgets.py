"""How often may a tool be called in a run: counted at the gate, in call order."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from zidane_core.call_facts import BudgetVerdict, Wording
from zidane_core.loop_options import NamedCallable, ToolBudget
from zidane_core.rules.verdicts import ALLOW, Allow, Block, Nudge, Prior, RuleEvent
from zidane_core.values import Value

ToolBudgets = Mapping[str, ToolBudget]


class ToolBudgetState(Value):
    """Calls of the tools that have a budget; an entry per tool of the behavior at most."""

    counts: Mapping[str, int] = Field(default_factory=dict[str, int])
    """Calls that ran or were replayed, by canonical name."""
    steered: tuple[str, ...] = ()
    """Tools whose nudge was given: once per tool and run (G-46)."""


@dataclass(frozen=True)
class Budgeted:
    """What the budget says of a call: `Allow` leaves it as the earlier gates left it."""

    state: ToolBudgetState
    verdict: Allow | Block = ALLOW
    nudge: Nudge | None = None
    event: RuleEvent | None = None


def at_gate(
    state: ToolBudgetState,
    budgets: ToolBudgets | None,
    *,
    tool: str,
    call_id: str,
    said: BudgetVerdict | None = None,
    prior: Prior | None = None,
) -> Budgeted:
    """Decide on one call before it starts; calls are asked about in the model's order.

    A call that an earlier gate blocked is not counted. A call that is refused here is not counted
    either, and each gives an event. With `steer` the call runs and the nudge and the event come
    once per tool and run. A call whose budget is a callable that said nothing is steered.

    Args:
        state: What came before.
        budgets: By canonical name; None is none.
        tool: Canonical name.
        call_id: For the event.
        said: What the budget's callable said of this call.
        prior: What earlier gates made of the call.

    Implements: NUDGE-01, NUDGE-02, NUDGE-03, G-46.
    """
    budget = (budgets or {}).get(tool)
    if budget is None or prior == "blocked":
        return Budgeted(state)
    count = state.counts.get(tool, 0)
    counted = state.model_copy(update={"counts": {**state.counts, tool: count + 1}})
    if count < budget.max:
        return Budgeted(counted)
    mode, message = _mode(budget, said)
    event = RuleEvent(
        "tool-budget:exceeded",
        {"tool": tool, "count": count, "max": budget.max, "mode": mode, "call_id": call_id},
    )
    times = "once" if budget.max == 1 else f"{budget.max} times"
    if mode == "block":
        text = message or (
            f"{tool} may be called {times} in a run, and has been. Go on with what you have."
        )
        return Budgeted(state, Block(Wording(text=text, prefix="Blocked: ")), event=event)
    if tool in state.steered:
        return Budgeted(counted)
    text = message or (
        f"You have now called {tool} more than {times} in this run. Stop calling it unless nothing "
        "else helps; go on with what you have, or answer."
    )
    told = counted.model_copy(update={"steered": (*counted.steered, tool)})
    return Budgeted(
        told, nudge=Nudge(reason="tool-budget", wording=Wording(text=text)), event=event
    )


def _mode(budget: ToolBudget, said: BudgetVerdict | None) -> tuple[str, str | None]:
    if isinstance(budget.on_exceed, NamedCallable):
        return (said.mode, said.message) if said is not None else ("steer", None)
    return budget.on_exceed, None


def to_be_decided(
    counts: Mapping[str, int], budgets: ToolBudgets | None, tools: tuple[str, ...]
) -> dict[int, int]:
    """Return which of a turn's calls a budget's callable is to be asked about, and at what count.

    An activity asks before the gates run, so a call that another gate will refuse may be asked
    about for nothing.

    Args:
        counts: The run's counts when the model call was asked for, by tool with a callable.
        budgets: By canonical name.
        tools: Canonical names of the turn's calls, in the model's order.

    Returns:
        By place in `tools`: the calls of the tool before this one.
    """
    seen = dict(counts)
    asked: dict[int, int] = {}
    for index, tool in enumerate(tools):
        budget = (budgets or {}).get(tool)
        if budget is None or not isinstance(budget.on_exceed, NamedCallable):
            continue
        count = seen.get(tool, 0)
        seen[tool] = count + 1
        if count >= budget.max:
            asked[index] = count
    return asked


def counts_for_callables(state: ToolBudgetState, budgets: ToolBudgets | None) -> dict[str, int]:
    """Return the counts that `to_be_decided` needs; empty when no budget is a callable."""
    asking = (t for t, b in (budgets or {}).items() if isinstance(b.on_exceed, NamedCallable))
    return {tool: state.counts.get(tool, 0) for tool in asking}
