"""May the run go on: cost, tokens and time, checked after each turn and before each model call.

With `budget_scope: tree` cost and tokens of subagents count too. Then every run of the tree asks
about the same sum, the root's `TreeSpend.total`, before its model calls, and reports to it what
each call cost: so no more than the calls that were already in flight can pass the limit.
"""

from collections.abc import Mapping

from pydantic import Field

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentBudgetExceededError
from zidane_core.usage import TurnUsage
from zidane_core.values import Json, Value


class Spend(Value):
    """What counts against a run's budgets; a `usage` hook may change it (G-51)."""

    cost_usd: float = 0.0
    tokens: int = 0

    def plus(self, usage: TurnUsage) -> "Spend":
        """Return the spend with one more turn: cost, and input plus output without cache."""
        return Spend(
            cost_usd=self.cost_usd + (usage.cost or 0.0),
            tokens=self.tokens + usage.input + usage.output,
        )

    def with_spend(self, other: "Spend") -> "Spend":
        """Return the sum of both."""
        return Spend(cost_usd=self.cost_usd + other.cost_usd, tokens=self.tokens + other.tokens)


def exceeded(
    behavior: AgentBehavior, spend: Spend, *, elapsed_ms: int
) -> AgentBudgetExceededError | None:
    """Return the error for the first budget that is crossed, or None.

    Budgets are soft: a run may pass one by a turn's spend. A budget that is reached exactly is
    not crossed. Without reported cost the cost budget never fires.

    Implements: BUD-01, BUD-02, BUD-03, BUD-04, BUD-06, ERR-01.
    """
    cost, tokens, wall = behavior.max_cost_usd, behavior.max_total_tokens, behavior.max_wall_ms
    if cost is not None and spend.cost_usd > cost:
        return AgentBudgetExceededError.over("cost", spent=spend.cost_usd, allowed=cost)
    if tokens is not None and spend.tokens > tokens:
        return AgentBudgetExceededError.over("tokens", spent=spend.tokens, allowed=tokens)
    if wall is not None and elapsed_ms > wall:
        return AgentBudgetExceededError.over("wallClock", spent=elapsed_ms, allowed=wall)
    return None


def before_call(
    behavior: AgentBehavior, spend: Spend, *, expected: Spend | None, elapsed_ms: int
) -> AgentBudgetExceededError | None:
    """Return the error for a budget that is crossed, or that the next model call would cross.

    Args:
        behavior: The budgets.
        spend: What counts so far; for a tree see `in_scope`.
        expected: What the call costs at the least, such as its input at the price of cached
            tokens; 0 where it is not known. None: not known at all, so only what is spent counts.
        elapsed_ms: Since the start of the run.

    Implements: BUD-01, BUD-02, BUD-03, K-BUDGET-02.
    """
    over = exceeded(behavior, spend, elapsed_ms=elapsed_ms)
    if over is not None or expected is None:
        return over
    would = exceeded(behavior, spend.with_spend(expected), elapsed_ms=elapsed_ms)
    if would is None:
        return None
    is_cost = would.details["limit"] == "cost"
    spent, more = (
        (spend.cost_usd, expected.cost_usd) if is_cost else (spend.tokens, expected.tokens)
    )
    unit, allowed = ("USD" if is_cost else "tokens"), would.details["allowed"]
    return AgentBudgetExceededError(
        f"Run budget would be exceeded: {spent:g} {unit} spent, the next model call takes at least "
        f"{more:g} more, {allowed} allowed. Raise the budget in behavior, or start another run on "
        "the session.",
        limit=would.details["limit"],
        spent=spent,
        expected=more,
        allowed=allowed,
    )


MAX_OPEN_CHILDREN = 1_024
"""Subagents at work whose reports a tree keeps; one more counts when it ends."""


class TreeSpend(Value):
    """What a run and all below it spent; the counts only rise."""

    own: Spend = Spend()
    """Of the run's own turns."""
    ended: Spend = Spend()
    """Of subagents that ended, each with all below it."""
    open: Mapping[str, Spend] = Field(default_factory=dict[str, Spend])
    """Latest report of each subagent at work, all below it included; at most 1,024."""

    def total(self) -> Spend:
        """Return the sum over the tree."""
        spend = self.own.with_spend(self.ended)
        for child in self.open.values():
            spend = spend.with_spend(child)
        return spend


def with_own(tree: TreeSpend, own: Spend) -> TreeSpend:
    """Return the tree after a turn of the run itself."""
    return tree.model_copy(update={"own": own})


def with_report(tree: TreeSpend, child: str, spend: Spend) -> TreeSpend:
    """Return the tree after a subagent said what it and all below it spent so far.

    Reports may come late or twice: a lower one than before changes nothing. Past 1,024 subagents
    at work a report is not kept; the subagent then counts when it ends.

    Implements: BUD-06, K-BUDGET-02.
    """
    before = tree.open.get(child)
    if before is None and len(tree.open) >= MAX_OPEN_CHILDREN:
        return tree
    known = before or Spend()
    highest = Spend(
        cost_usd=max(known.cost_usd, spend.cost_usd), tokens=max(known.tokens, spend.tokens)
    )
    return tree.model_copy(update={"open": {**tree.open, child: highest}})


def with_ended(tree: TreeSpend, child: str, spend: Spend) -> TreeSpend:
    """Return the tree after a subagent ended with this spend, a cancelled stream's included.

    Call it once per subagent; what it reported before counts when that was more.

    Implements: BUD-06, K-BUDGET-02.
    """
    reported = with_report(tree, child, spend)
    last = reported.open.get(child, spend)
    others = {name: reported.open[name] for name in reported.open if name != child}
    return tree.model_copy(update={"ended": tree.ended.with_spend(last), "open": others})


def in_scope(behavior: AgentBehavior, tree: TreeSpend) -> Spend:
    """Return what the run's budgets count: its own turns, or the tree's (BUD-06, G-47)."""
    return tree.total() if behavior.budget_scope == "tree" else tree.own


def budgets_of_child(behavior: AgentBehavior, tree: TreeSpend, child: AgentBehavior) -> Json:
    """Return the behavior fields that keep a new subagent within what the tree has left.

    It is a bound on one subagent only: several at work share what is left through `TreeSpend`.
    Empty with `budget_scope: run`, and for what the tree does not bound. A budget cannot be 0,
    so a tree with nothing left gives the smallest one there is; better start no subagent then.

    Implements: BUD-06, K-BUDGET-02.
    """
    if behavior.budget_scope != "tree":
        return {}
    spent = tree.total()
    fields: Json = {"budget_scope": "tree"}
    if behavior.max_cost_usd is not None:
        left = max(1e-9, behavior.max_cost_usd - spent.cost_usd)
        fields["max_cost_usd"] = min(left, child.max_cost_usd or left)
    if behavior.max_total_tokens is not None:
        tokens = max(1, behavior.max_total_tokens - spent.tokens)
        fields["max_total_tokens"] = min(tokens, child.max_total_tokens or tokens)
    return fields


def bounded_timeout_ms(timeout_ms: int, max_wall_ms: int | None) -> int:
    """Return the lower of a time limit (0 is off) and the run's time budget (BUD-05); 0 is off."""
    limits = [limit for limit in (timeout_ms, max_wall_ms or 0) if limit > 0]
    return min(limits, default=0)
