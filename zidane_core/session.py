"""Sessions as trees of turns, the messages made of them, and the records of runs."""

from typing import Literal, NewType

from zidane_core.content import ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.errors import HistoryRepairKind
from zidane_core.usage import AgentStats, TurnUsage
from zidane_core.values import Json, Value

SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
TurnId = NewType("TurnId", str)

TurnRole = Literal["system", "user", "assistant", "command"]

InjectedTurnReason = Literal[
    "refusal-retry",
    "length-continue",
    "pause-continue",
    "tool-output-budget",
    "tool-budget",
    "turn-warning",
    "progress-nudge",
    "unknown-tool",
    "text-tool-call",
    "thinking-overrun",
    "background-notice",
    "output-retry",
]
"""Why the loop added a user turn by itself (LOOP-13)."""


class HistoryRepair(Value):
    """What later requests leave out of the turns up to and including `through`."""

    kind: HistoryRepairKind
    through: str
    """Id of a turn on the path."""


class Turn(Value):
    """One stored entry of a session.

    Implements: SESS-01, SESS-02, SESS-03, SESS-09.
    """

    id: str
    parent_id: str | None = None
    """The turn before it on its path; None for the root."""
    role: TurnRole
    content: tuple[ContentBlock, ...]
    created_at: int
    """Milliseconds since the epoch, from the run's clock."""
    run_id: str | None = None
    usage: TurnUsage | None = None
    """Assistant turns only."""
    injected: InjectedTurnReason | None = None
    """Why the loop added this user turn; None when a person or program sent it."""
    aborted: bool = False
    """Output of an attempt that died: shown in transcripts, never sent to a model (CTL-11)."""
    display: str | None = None
    """One line that transcripts show instead of the content."""
    message_id: str | None = None
    """The sender's id of a steer or follow-up message (CTL-03)."""
    repairs: tuple[HistoryRepair, ...] = ()
    """Assistant turns only: the request that made it needed these, and so do all later ones."""

    @property
    def text(self) -> str:
        """The turn's text blocks, joined without a separator."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The turn's tool calls in the model's order; may be empty."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The turn's tool results in call order; may be empty."""
        return tuple(block for block in self.content if isinstance(block, ToolResultBlock))


class Message(Value):
    """What a provider is sent: derived from turns for each request, never stored (SESS-04)."""

    role: Literal["user", "assistant"]
    content: tuple[ContentBlock, ...]


SessionEndStatus = Literal["completed", "aborted", "error", "paused", "suspended"]


class RunRecord(Value):
    """A run as the store keeps it (SESS-14)."""

    run_id: str
    session_id: str
    agent: str
    status: SessionEndStatus | Literal["running"] = "running"
    prompt: str | None = None
    """The prompt's text, its first 500 characters."""
    model: str | None = None
    """The first target, `provider:model`."""
    started_at: int = 0
    ended_at: int | None = None
    head: str | None = None
    base_head: str | None = None
    """The head that the run continued; None for a new session."""
    label: str | None = None
    depth: int = 0
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    resumed_from_run_id: str | None = None
    manifest: str | None = None
    phase: str = "starting"
    """The last phase that an activity stored: what is known when no worker answers."""
    reason: str | None = None
    stats: AgentStats = AgentStats()
    error: Json | None = None
