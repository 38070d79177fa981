"""RunState: everything the loop knows, in one serialisable model.

The model itself is replaced field by field by the loop; every field holds a frozen value, so
a shallow copy is a whole one.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from zidane_core.behavior import AgentBehavior, StoredBehavior
from zidane_core.control import Control, PauseMode, QueuedUserMessage
from zidane_core.events import LoopEvent
from zidane_core.requests import NewTurn, RepairOrder, Request
from zidane_core.rules.batch import Batch
from zidane_core.rules.budgets import Spend
from zidane_core.rules.output import OutputProgress
from zidane_core.rules.recovery import RecoveryCounts
from zidane_core.runs import OnProviderFailure, OpenQuestion, Phase, RunResult
from zidane_core.session import SessionEndStatus
from zidane_core.usage import RunTotals, TurnFinishReason
from zidane_core.values import Json, Value

MAX_SEEN_MESSAGES = 1_000
"""Ids of messages already taken that a run remembers."""

MAX_QUEUED_BYTES = 786_432
"""Messages that wait in a run, together: the state must fit one payload of 2 MiB."""


class Ending(Value):
    """How the run is about to end."""

    status: SessionEndStatus
    error: Json | None = None


class RunState(BaseModel):
    """The whole state of a run's loop; carried over by continue-as-new.

    Fields are only ever added, with defaults.
    """

    model_config = ConfigDict(extra="ignore", validate_assignment=False)

    run_id: str
    session_id: str
    agent: str
    started_at: int
    request: Json | None = None
    """The run request, until the run is set up."""
    phase: Phase = Phase.STARTING
    reason: str | None = None
    manifest: str | None = None
    targets: tuple[str, ...] = ()
    behavior: StoredBehavior = AgentBehavior()
    on_provider_failure: OnProviderFailure = "park"
    head: str | None = None
    append: tuple[NewTurn, ...] = ()
    """Turns that the next model call, or the end of the run, appends."""
    turn: int = 0
    """Model turns begun."""
    target: int = 0
    turn_id: str = ""
    """The assistant turn that is made or whose calls run."""
    attempt: int = 0
    """Provider attempts of the turn, over all targets."""
    tries: int = 0
    """Attempts on the target since the turn began or the run was resumed."""
    spent_ms: int = 0
    """How long the turn's failed attempts took."""
    repairs: tuple[RepairOrder, ...] = ()
    """What the turn's requests leave out of the history, as a provider refused it whole."""
    batch: Batch = ()
    go_on: bool = True
    """Whether the model has something to answer: results, a message, or the prompt."""
    running: tuple[Request, ...] = ()
    """Requests without a receipt; asked again after a continue-as-new."""
    steers: tuple[QueuedUserMessage, ...] = ()
    follow_ups: tuple[QueuedUserMessage, ...] = ()
    seen: tuple[str, ...] = ()
    pause: PauseMode | None = None
    ending: Ending | None = None
    totals: RunTotals = RunTotals()
    spend: Spend = Spend()
    recovery: RecoveryCounts = RecoveryCounts()
    output: OutputProgress = OutputProgress()
    finish_reason: TurnFinishReason | None = None
    """Of the last model turn."""
    questions: tuple[OpenQuestion, ...] = ()
    tool_state: dict[str, JsonValue] = Field(default_factory=dict)
    events: tuple[LoopEvent, ...] = ()
    numbered: int = 0
    """Requests numbered so far (timers, host calls)."""
    last_text: str = ""
    result: RunResult | None = None
    fault: str | None = None
    """A failure of our own code, while the run is parked for it."""
    held: tuple[Control, ...] = ()
    """Messages that came with or after the fault; taken on `resume`."""

    def packed(self) -> Json:
        """Return the state as a JSON object without the fields that hold their default."""
        return self.model_dump(mode="json", exclude_defaults=True)
