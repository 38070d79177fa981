"""What a tool is, as data: its spec, its flags, what a call of it did."""

from typing import Literal

from pydantic import Field

from zidane_core.values import Json, Value

ToolOutcome = Literal["created", "updated", "edited", "noop", "failed"]
"""What a mutating call did: `noop` changed no byte, `failed` had no effect (TOOL-09)."""

Placement = Literal["activity", "local", "human"]
"""Where a call runs: a regular activity, a local one (milliseconds, read-only), or a person."""

DEFAULT_TOOL_TIMEOUT_MS = 600_000


class ToolSpec(Value):
    """A tool as the model and the loop see it; the body stays on the worker.

    Implements: TOOL-01, TOOL-05.
    """

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    """Canonical name; the only one in sessions, hooks and budgets."""
    description: str = ""
    input_schema: Json
    """JSON Schema of an object."""
    alias: str | None = None
    """The name shown to the model and to people; None means the canonical one."""
    concurrency_safe: bool = False
    """May run next to other calls; an unsafe tool is a barrier (TOOL-02)."""
    read_only: bool = False
    """Changes nothing outside; such a tool may always be run again."""
    idempotent: bool = False
    """May be run again after its worker was killed in mid-call; else the call is interrupted."""
    quick: bool = False
    """Read-only and done in milliseconds: may run as a local activity."""
    timeout_ms: int = DEFAULT_TOOL_TIMEOUT_MS
    """How long one call may take in all."""
    asks_person: bool = False
    """The call is answered by a person through the `answer` update, not by a body."""

    @property
    def shown_name(self) -> str:
        """The name on the wire and in front of people."""
        return self.alias or self.name

    @property
    def repeatable(self) -> bool:
        """Whether a killed call may simply run again."""
        return self.read_only or self.idempotent

    @property
    def placement(self) -> Placement:
        """Where the loop sends a call of this tool."""
        if self.asks_person:
            return "human"
        return "local" if self.quick and self.read_only else "activity"


SYNTHETIC_TOOL_RESULT_PLACEHOLDER = (
    "No result is recorded for this call. Its effects, if any, are unknown."
)
"""Stands for a result that is missing from the session (SESS-11)."""

SKIPPED_BY_USER_MESSAGE = "skipped: user message"
"""Result of a call that had not started when a person steered the run (CTL-06, K-STEER-02)."""

CANCELLED_RESULT = "cancelled: the run was stopped before this call finished"
"""Result of a call that was open when the run was aborted or suspended (K-TEMPORAL-14)."""

INTERRUPTED_RESULT = (
    "interrupted: the worker that ran this call was lost before it reported. Its effects are "
    "unknown: it may have run in part, in full, or not at all. Check before you repeat it."
)
"""Result of a non-repeatable call whose worker died (DUR-02, G-57)."""


def blocked_result(reason: str) -> str:
    """Return the result text of a call that a gate refused (TOOL-07)."""
    return f"Blocked: {reason}"
