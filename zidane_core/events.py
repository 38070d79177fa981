"""What watchers of a run see: a stream of events, read from the store by cursor."""

from typing import Literal

from pydantic import Field

from zidane_core.values import Json, Value

EventName = Literal[
    "run:started",
    "turn:started",
    "text",
    "thinking",
    "turn:done",
    "turn:failed",
    "tool:started",
    "tool:progress",
    "tool:done",
    "steer:inject",
    "stream:retry",
    "model:fallback",
    "pairing:repair",
    "history:repair",
    "context:compacted",
    "output:rejected",
    "output:accepted",
    "thinking:overrun",
    "tool-state:commit-failed",
    "agent:abort",
    "budget:exceeded",
    "control:refused",
    "question:asked",
    "question:answered",
    "run:paused",
    "run:parked",
    "run:resumed",
    "run:done",
]
"""`text`, `thinking` and `tool:progress` are live: they go when their turn is committed."""

LIVE_EVENTS: frozenset[str] = frozenset({"text", "thinking", "tool:progress"})


class RunEvent(Value):
    """One event of a run.

    Live pieces carry `turn_id` and `attempt`: a piece of a new attempt voids all that an
    earlier attempt of the same turn sent (K-TEMPORAL-08, DUR-08).
    """

    seq: int = 0
    """Cursor, ascending; set by the store."""
    run_id: str
    session_id: str
    name: EventName
    at: int = 0
    """Milliseconds since the epoch."""
    turn_id: str | None = None
    attempt: int = 1
    fields: Json = Field(default_factory=dict)
    """What the event says: `text` has `delta`; others name ids, numbers and reasons."""
    origin: str | None = None
    """The request that it travelled with, and its place there: stored once however often the
    request is tried. None for events that only a winning write stores."""


class LoopEvent(Value):
    """An event born in the loop; the next activity stores it and fires its hooks."""

    name: EventName
    fields: Json = Field(default_factory=dict)
