"""What a turn and a run used, how two add up, and the tree of runs."""

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import JsonValue

from zidane_core.values import Value

TurnFinishReason = Literal[
    "stop", "tool-calls", "length", "content-filter", "pause", "error", "other"
]
"""Why the model ended a turn (LOOP-05)."""


class TurnUsage(Value):
    """Usage of one model call. None means not reported; 0 means zero.

    Implements: USE-01.
    """

    input: int = 0
    """Input tokens without those read from or written to the prompt cache."""
    output: int = 0
    """Output tokens, thinking included."""
    cache_creation: int | None = None
    cache_read: int | None = None
    thinking: int | None = None
    thinking_dropped: int | None = None
    cost: float | None = None
    """USD: reported by the provider, else estimated from prices, else None (USE-02)."""
    energy_joules: float | None = None
    estimated: bool = False
    """The token counts are our own estimate: the server reported none (K-OPENAI-07)."""
    finish_reason: TurnFinishReason | None = None
    model_id: str | None = None
    """The model that answered; may differ from the name that was asked for."""
    provider: str | None = None
    stream_duration_ms: int | None = None
    """From dispatch to return of the model call (USE-04)."""
    time_to_first_token_ms: int | None = None
    """From dispatch to the first text, thinking or tool call; None if nothing landed (USE-03)."""


class RunTotals(Value):
    """Running sums of a run; constant in size however many turns it has."""

    total_in: int = 0
    total_out: int = 0
    total_cache_read: int = 0
    total_cache_creation: int = 0
    turns: int = 0
    cost: float = 0.0
    time_till_first_token_ms: int | None = None

    def plus(self, usage: TurnUsage) -> Self:
        """Return the totals with one more turn."""
        return self.model_copy(
            update={
                "total_in": self.total_in + usage.input,
                "total_out": self.total_out + usage.output,
                "total_cache_read": self.total_cache_read + (usage.cache_read or 0),
                "total_cache_creation": self.total_cache_creation + (usage.cache_creation or 0),
                "turns": self.turns + 1,
                "cost": self.cost + (usage.cost or 0.0),
            }
        )

    def to_stats(self, *, elapsed_ms: int) -> "AgentStats":
        """Return the totals as stats, without the list of turns."""
        return AgentStats(
            total_in=self.total_in,
            total_out=self.total_out,
            total_cache_read=self.total_cache_read,
            total_cache_creation=self.total_cache_creation,
            turns=self.turns,
            cost=self.cost or None,
            elapsed=elapsed_ms,
            time_till_first_token_ms=self.time_till_first_token_ms,
        )


ChildStatus = Literal["completed", "error", "aborted", "timeout"]


class ChildRunStats(Value):
    """A subagent's run as its parent records it (SPWN-06).

    `stats` cover the child's whole tree, so never add up `total_in` over the children of every
    level: a grandchild would count twice. Use `flatten_turns` on the root (USE-11).
    """

    id: str
    task: str
    stats: "AgentStats"
    call_id: str | None = None
    depth: int | None = None
    status: ChildStatus = "completed"
    output: JsonValue = None
    """The child's structured output, as in its stats (OUT-03)."""

    @classmethod
    def of(
        cls,
        run_id: str,
        task: str,
        stats: "AgentStats",
        *,
        status: ChildStatus = "completed",
        call_id: str | None = None,
        depth: int | None = None,
    ) -> Self:
        """Return the record of a child that ended; its output is the one of its stats (OUT-03)."""
        return cls(
            id=run_id,
            task=task,
            stats=stats,
            call_id=call_id,
            depth=depth,
            status=status,
            output=stats.output,
        )


class AgentStats(Value):
    """Usage of a run: sums over its whole tree, turns of its own loop.

    Implements: USE-05, USE-06, USE-07.
    """

    total_in: int = 0
    total_out: int = 0
    total_cache_read: int = 0
    total_cache_creation: int = 0
    turns: int = 0
    elapsed: int = 0
    """Wall time of the run in milliseconds; children are contained in it."""
    turn_usage: tuple[TurnUsage, ...] | None = None
    """Each turn's usage in order; None for runs of more than 200 turns (the store has them)."""
    children: tuple[ChildRunStats, ...] | None = None
    """Subagents in the order in which they ended."""
    cost: float | None = None
    """USD over the tree; None when no turn reported one above zero."""
    output: JsonValue = None
    """The structured output; only when the run had a schema (OUT-01)."""
    paused: bool = False
    suspended: bool = False
    time_till_first_token_ms: int | None = None
    """From the start of the run to its first text, thinking or tool call (USE-08)."""


ChildRunStats.model_rebuild()


class ModelUsage(Value):
    """What one model used; `input` excludes cache tokens, an unknown price adds 0 (USE-10)."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_creation: int = 0
    cost: float = 0.0
    turns: int = 0


def flatten_turns(stats: AgentStats) -> tuple[TurnUsage, ...]:
    """Return the turns of a run's tree: parent first, then each child in completion order.

    Implements: USE-09.
    """
    return tuple(_walk_turns(stats))


def _walk_turns(stats: AgentStats) -> Iterator[TurnUsage]:
    yield from stats.turn_usage or ()
    for child in stats.children or ():
        yield from _walk_turns(child.stats)


def stats_by_model(stats: AgentStats) -> dict[str, ModelUsage]:
    """Return the usage of a run's tree by model id; a turn without one counts as `(unknown)`.

    Implements: USE-10.
    """
    totals: dict[str, ModelUsage] = {}
    for turn in _walk_turns(stats):
        key = turn.model_id or "(unknown)"
        have = totals.get(key, ModelUsage())
        totals[key] = ModelUsage(
            input=have.input + turn.input,
            output=have.output + turn.output,
            cache_read=have.cache_read + (turn.cache_read or 0),
            cache_creation=have.cache_creation + (turn.cache_creation or 0),
            cost=have.cost + (turn.cost or 0.0),
            turns=have.turns + 1,
        )
    return totals
