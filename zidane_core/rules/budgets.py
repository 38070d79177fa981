"""May the run go on: cost, tokens and time, checked after each turn's tools."""

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentBudgetExceededError
from zidane_core.usage import TurnUsage
from zidane_core.values import Value


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


def bounded_timeout_ms(timeout_ms: int, max_wall_ms: int | None) -> int:
    """Return the lower of a time limit (0 is off) and the run's time budget (BUD-05); 0 is off."""
    limits = [limit for limit in (timeout_ms, max_wall_ms or 0) if limit > 0]
    return min(limits, default=0)
