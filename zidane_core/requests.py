"""Run to activity: what the loop asks for. `kind` is the activity's name.

Requests carry ids, never content, and are the same whenever they are asked again: every
activity is idempotent by them.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, JsonValue

from zidane_core.control import QueuedUserMessage
from zidane_core.errors import HistoryRepairKind
from zidane_core.events import LoopEvent
from zidane_core.output import OutputRef
from zidane_core.runs import Phase
from zidane_core.session import InjectedTurnReason, SessionEndStatus
from zidane_core.usage import AgentStats
from zidane_core.values import Json, Tagged, Value


class MessageTurn(Tagged):
    """A user turn made of a person's or program's message."""

    kind: Literal["message"] = "message"
    id: str
    message: QueuedUserMessage


class ResultsTurn(Tagged):
    """The user turn that answers the calls of the turn before it, composed from the store."""

    kind: Literal["results"] = "results"
    id: str
    call_ids: tuple[str, ...]
    """In the model's order."""
    made: dict[str, str] = Field(default_factory=dict)
    """Error results that the loop made itself, by call id: skipped, cancelled, failed."""


class InjectedTurn(Tagged):
    """A user turn that the loop adds by itself (LOOP-13)."""

    kind: Literal["injected"] = "injected"
    id: str
    reason: InjectedTurnReason
    text: str


NewTurn = Annotated[MessageTurn | ResultsTurn | InjectedTurn, Discriminator("kind")]
"""A turn to append before a model call, or at the end of the run."""


class _ForRun(Tagged):
    run_id: str
    session_id: str
    now: int
    """The run's clock when the loop asked; time of the turns that this request writes."""
    events: tuple[LoopEvent, ...] = ()
    """Events born in the loop since the last request."""


class StartRun(_ForRun):
    """Resolve everything the run depends on, store manifest, run record and prompt turn."""

    kind: Literal["start_run"] = "start_run"
    request: Json
    prompt_turn_id: str

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return "start"


class RepairOrder(Value):
    """A repair that the loop asks for; the activity finds out how far back it reaches."""

    kind: HistoryRepairKind
    level: int = 1
    """For `long`: how deep, 1 to 3."""


class StreamTurn(_ForRun):
    """Append turns, make one model call, store the assistant turn."""

    kind: Literal["stream_turn"] = "stream_turn"
    manifest: str
    turn_id: str
    """Id of the assistant turn; the same for every attempt."""
    turn: int
    """1 for the run's first."""
    head: str | None = None
    append: tuple[NewTurn, ...] = ()
    target: int = 0
    """Index into the manifest's targets."""
    attempt: int = 1
    """Provider attempt of this turn, counted by the loop."""
    spent_ms: int = 0
    """How long the turn's failed attempts took (USE-04)."""
    repairs: tuple[RepairOrder, ...] = ()
    """What to leave out of the history, as the provider refused it whole."""

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return f"turn-{self.turn}-{self.turn_id[:8]}-{self.attempt}"


class CallTool(_ForRun):
    """Run one tool call, or record a person's answer to it."""

    kind: Literal["call_tool"] = "call_tool"
    manifest: str
    turn_id: str
    call_id: str
    name: str
    place: Literal["activity", "local"] = "activity"
    title: str = ""
    """What the Temporal UI shows: the tool and its main argument."""
    timeout_ms: int | None = None
    """The tool's own limit; None is the default of 10 minutes."""
    answer: JsonValue = None
    is_answered: bool = False
    """Whether `answer` is the result; the body is then not run."""

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return f"call-{self.turn_id[:8]}-{self.call_id}"


class HostCall(_ForRun):
    """Store the run's phase and events, and fire their hooks, when no other activity is due."""

    kind: Literal["host_call"] = "host_call"
    manifest: str
    number: int
    phase: Phase
    reason: str | None = None

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return f"host-{self.number}"


class FinishRun(_ForRun):
    """Append what is left, write the run record, fire the last hooks."""

    kind: Literal["finish_run"] = "finish_run"
    manifest: str | None = None
    """None when the run ended before it was set up."""
    head: str | None = None
    append: tuple[NewTurn, ...] = ()
    status: SessionEndStatus
    error: Json | None = None
    stats: AgentStats
    agent: str
    answer: OutputRef | None = None
    """The last answer to the run's schema: its output, or with an error what was refused."""

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return "finish"


class Wait(Tagged):
    """A timer of the run itself; no activity."""

    kind: Literal["wait"] = "wait"
    number: int
    delay_ms: int
    reason: str

    @property
    def key(self) -> str:
        """Unique among the run's requests."""
        return f"wait-{self.number}"


ActivityRequest = StartRun | StreamTurn | CallTool | HostCall | FinishRun

Request = Annotated[ActivityRequest | Wait, Discriminator("kind")]
"""Whatever the loop asks its runtime for."""
