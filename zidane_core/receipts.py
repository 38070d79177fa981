"""Activity to run: what the loop decides from. Small and constant in size, never content."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, JsonValue

from zidane_core.behavior import AgentBehavior, StoredBehavior
from zidane_core.errors import ProviderFailure
from zidane_core.output import OutputVerdict
from zidane_core.runs import OnProviderFailure
from zidane_core.tool_state import ToolStateOp
from zidane_core.tools import Placement, ToolOutcome
from zidane_core.usage import AgentStats, TurnUsage
from zidane_core.values import Json, Tagged, Value

MAX_PREVIEW_CHARS = 120
MAX_LISTED_TURNS = 200
"""Runs of more turns carry no list of their turns' usage in the result."""


class RunStarted(Tagged):
    """The run is set up, or was refused."""

    kind: Literal["run_started"] = "run_started"
    manifest: str = ""
    head: str | None = None
    """The prompt turn, or the session's head when there was no prompt."""
    targets: tuple[str, ...] = ()
    behavior: StoredBehavior = AgentBehavior()
    """What the loop needs of it; `extensions` and `model_options` are left out."""
    on_provider_failure: OnProviderFailure = "park"
    tool_state: dict[str, JsonValue] = Field(default_factory=dict)
    wants_output: bool = False
    """The run has a schema; the schema itself stays in the manifest."""
    error: Json | None = None
    """A typed refusal; nothing was written then."""


class CallNote(Value):
    """What the loop needs to know of one call of a turn."""

    id: str
    name: str
    """Canonical name, or the unknown one that the model wrote."""
    is_safe: bool = False
    """May run next to other calls."""
    place: Placement = "activity"
    title: str = ""
    timeout_ms: int | None = None


class TurnStreamed(Tagged):
    """A model call ended: with a stored turn, a failure, or because it was cancelled."""

    kind: Literal["turn_streamed"] = "turn_streamed"
    usage: TurnUsage = TurnUsage()
    budget_usage: TurnUsage | None = None
    """What budgets count when a `usage` hook changed it; None means `usage`."""
    calls: tuple[CallNote, ...] = ()
    preview: str = ""
    """Head of the turn's text."""
    has_text: bool = False
    has_thinking: bool = False
    thinking_tokens: int = 0
    """Reasoning of the turn, only when it passed the policy's threshold (NUDGE-10)."""
    awaits_server: bool = False
    """The turn ends in a tool call of the provider's own without its result: to be sent back as
    it is (K-ANTHROPIC-03)."""
    output: OutputVerdict | None = None
    """For a run with a schema: what the turn's text is worth; None while it calls tools."""
    first_signal_at: int | None = None
    """When the first text, thinking or call landed, epoch ms by the worker's clock."""
    failure: ProviderFailure | None = None
    elapsed_ms: int = 0
    """How long a failed attempt took; part of the turn's stream duration (USE-04)."""
    is_cancelled: bool = False


class ToolCalled(Tagged):
    """A tool call has its result in the store."""

    kind: Literal["tool_called"] = "tool_called"
    is_error: bool = False
    ops: tuple[ToolStateOp, ...] = ()
    """Committed tool-state ops, in order."""
    output_bytes: int = 0
    outcome: ToolOutcome | None = None
    is_interrupted: bool = False
    is_cancelled: bool = False
    output: OutputVerdict | None = None
    """For a call of the output tool: whether its arguments fit the schema."""


class HostCalled(Tagged):
    """Phase and events are stored."""

    kind: Literal["host_called"] = "host_called"


class RunFinished(Tagged):
    """The run record is written."""

    kind: Literal["run_finished"] = "run_finished"
    text: str = ""
    head: str | None = None
    stats: AgentStats = AgentStats()
    output: JsonValue = None
    refused_answer: str | None = None
    """The raw answer that did not fit, when the run ended for want of a fitting one."""


class Waited(Tagged):
    """A timer fired."""

    kind: Literal["waited"] = "waited"


class RequestFailed(Tagged):
    """An activity gave up for good, or was cancelled before it could answer."""

    kind: Literal["request_failed"] = "request_failed"
    type: str
    message: str
    details: Json = Field(default_factory=dict)
    is_cancelled: bool = False


Receipt = Annotated[
    RunStarted | TurnStreamed | ToolCalled | HostCalled | RunFinished | Waited | RequestFailed,
    Discriminator("kind"),
]
"""Any answer of a runtime to a request."""


class Settled(Tagged):
    """A request is over: its key and its receipt."""

    kind: Literal["settled"] = "settled"
    key: str
    receipt: Receipt
