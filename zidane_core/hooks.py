"""The table of hooks: each event's payload, what a handler may change, and its rules.

Handlers run in activities, in registration order, at least once: a retry of the activity fires
them again with a higher `attempt`. An event that nobody handles costs nothing (HOOK-07).
"""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from zidane_core.content import ToolOutput, tool_output_byte_length
from zidane_core.decisions import (
    Decide,
    DecisionAnswers,
    DecisionFailureReason,
    DecisionInputKind,
    DecisionUsage,
    NoDecisions,
)
from zidane_core.errors import InvalidRequestError
from zidane_core.session import Message, Turn
from zidane_core.tools import ToolOutcome
from zidane_core.usage import AgentStats, TurnUsage
from zidane_core.values import Json


@dataclass(kw_only=True)
class HookPayload:
    """What every handler gets; fields not named as mutable are read-only by contract (G-50)."""

    attempt: int = 1
    """Above 1 when the activity that fires the hook was tried before."""


@dataclass(kw_only=True)
class HookContext(HookPayload):
    """What the handlers of a run's events get; only those of decisions get less."""

    run_id: str
    session_id: str
    depth: int = 0
    parent_run_id: str | None = None
    parent_call_id: str | None = None

    @property
    def decide(self) -> Decide:
        """Makes decisions for the handler, bound to the run; no field: never compared or written.

        Implements: HOOK-02.
        """
        found: Decide | None = vars(self).get("_decide")
        return NoDecisions() if found is None else found

    def attach_decide(self, decide: Decide) -> None:
        """Give the handlers `decide`; done by the bus just before they run."""
        vars(self)["_decide"] = decide


@dataclass(kw_only=True)
class AgentStart(HookContext):
    """`agent:start`: the run is set up, before the first turn (HOOK-10)."""

    agent: str
    model: str
    tracing_context: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(kw_only=True)
class AgentDone(HookContext):
    """`agent:done`: once per run, on every exit path (HOOK-11, LOOP-17)."""

    status: str
    stats: AgentStats


@dataclass(kw_only=True)
class SessionEvent(HookContext):
    """`session:start` and `session:end` (HOOK-13, HOOK-14)."""

    status: str | None = None
    """completed, aborted or error; None at the start."""


@dataclass(kw_only=True)
class SessionTurns(HookContext):
    """`session:turns`: the run's turns as stored (HOOK-15)."""

    turns: Sequence[Turn]
    count: int


@dataclass(kw_only=True)
class SystemPrompt(HookContext):
    """`system:before` once, `system:transform` each turn. Mutable: system (HOOK-18, HOOK-19)."""

    system: str
    turn_id: str | None = None


@dataclass(kw_only=True)
class ContextTransform(HookContext):
    """`context:transform`: the messages of the wire view. Mutable: messages (HOOK-20)."""

    turn_id: str
    messages: list[Message]


@dataclass(kw_only=True)
class TurnBefore(HookContext):
    """`turn:before`: the wire view is built. Mutable: max_tokens, model_options (HOOK-21)."""

    turn: int
    turn_id: str
    model: str
    max_tokens: int | None
    model_options: dict[str, JsonValue]


@dataclass(kw_only=True)
class TurnAfter(HookContext):
    """`turn:after`: the assistant turn is settled, before its tools (HOOK-22)."""

    turn: int
    turn_id: str
    usage: TurnUsage
    message: Turn


@dataclass(kw_only=True)
class ToolResultsAfter(HookContext):
    """`tool-results:after`: all results of a turn are settled (HOOK-23)."""

    turn_id: str
    results: Turn


@dataclass(kw_only=True)
class UsageReport(HookContext):
    """`usage`: a turn's usage. Mutable: usage, which budgets alone count (HOOK-24, G-51)."""

    turn_id: str
    usage: TurnUsage


@dataclass(kw_only=True)
class StreamEvent(HookContext):
    """`stream:start`, `stream:text`, `stream:thinking`, `stream:end` (HOOK-25 to HOOK-28)."""

    turn_id: str
    delta: str = ""
    text: str = ""
    """Text so far; at the end the whole text."""
    thinking: str = ""


@dataclass(kw_only=True)
class InputTransformations(HookContext):
    """`provider:input-transformations`: the provider changed the replayed input (HOOK-30)."""

    turn_id: str
    transformations: tuple[Json, ...]
    """As the provider named them, such as `{"type": "thinking_dropped", "reason": ...}`."""


@dataclass(kw_only=True)
class LoopReport(HookContext):
    """An event born in the loop: `agent:abort`, `model:fallback`, `steer:inject` and others."""

    name: str
    fields: Json


@dataclass(kw_only=True)
class PairingRepair(HookContext):
    """`pairing:repair`: one repair of the wire view (HOOK-44)."""

    turn_id: str
    repair: str
    call_id: str


@dataclass(kw_only=True)
class ToolHook(HookContext):
    """Base of the tool events (HOOK-08)."""

    call_id: str
    turn_id: str
    name: str
    """Canonical; policies match on this."""
    display_name: str
    """The alias, for people and telemetry."""
    input: Json
    parent_tool_call_id: str | None = None
    script_line: int | None = None
    runs_nested_agent: bool = False


@dataclass(kw_only=True)
class ToolGate(ToolHook):
    """`tool:gate`: may refuse a call or answer it. Mutable: block, reason, result (HOOK-32)."""

    block: bool = False
    reason: str = ""
    result: ToolOutput | None = None
    """A substitute result: the body is skipped, `tool:transform` and `tool:after` still fire."""


@dataclass(kw_only=True)
class ToolTransform(ToolHook):
    """`tool:transform`: a result before it is emitted. Mutable: result, is_error (HOOK-35)."""

    result: ToolOutput
    is_error: bool
    metadata: Json = field(default_factory=dict[str, JsonValue])

    @property
    def output_bytes(self) -> int:
        """Wire size of the result (HOOK-06)."""
        return tool_output_byte_length(self.result)


@dataclass(kw_only=True)
class ToolAfter(ToolTransform):
    """`tool:after`: the result is final (HOOK-36)."""

    outcome: ToolOutcome | None = None


@dataclass(kw_only=True)
class ToolProgress(ToolHook):
    """`tool:progress`: a line from a running tool; live only (HOOK-34)."""

    text: str


@dataclass(kw_only=True)
class ToolFailed(ToolHook):
    """`tool:error`, `tool:unknown`, `validation:reject`. Mutable: result (HOOK-37 to HOOK-39)."""

    error: str
    result: str
    suggestions: tuple[str, ...] = ()


@dataclass(kw_only=True)
class ToolStateCommitFailed(HookContext):
    """`tool-state:commit-failed`: a call's ops were not stored (HOOK-43, STATE-06)."""

    call_id: str
    ops: tuple[Json, ...]
    error: str


@dataclass(kw_only=True)
class DecisionStart(HookPayload):
    """`decision:start`: before a decision's model call (DEC-12, HOOK-57).

    It has no `decide`, so that a decision's own events cannot make decisions for ever.
    """

    decision_id: str
    """Shared with `decision:end` and the outcome (DEC-11)."""
    input_kind: DecisionInputKind
    question_names: tuple[str, ...]
    started_at: int
    """Epoch milliseconds."""
    model: str | None = None
    provider: str | None = None
    """None when none was found, as `model`."""
    run_id: str | None = None
    """None for a decision that a client asked for, as `session_id`."""
    session_id: str | None = None


@dataclass(kw_only=True)
class DecisionEnd(DecisionStart):
    """`decision:end`: after it, however it ended (DEC-13, HOOK-57)."""

    duration_ms: int
    ok: bool
    answers: DecisionAnswers | None = None
    """Only when ok, as `usage`."""
    usage: DecisionUsage | None = None
    reason: DecisionFailureReason | None = None
    """Only when not ok, as `message`."""
    message: str | None = None


@dataclass(kw_only=True)
class OAuthRefresh(HookPayload):
    """`oauth:refresh`: a provider's credentials were renewed; never stored or logged (HOOK-58)."""

    provider: str
    """The key before the colon in `provider:model`."""
    provider_id: str
    """The provider's own name; another one when it is registered under another key."""
    source: str
    """`params` or `file`."""
    credentials: Json = field(repr=False)
    """`access`, `refresh`, `expires` (epoch milliseconds) and what else the host gave."""
    previous_credentials: Json = field(repr=False)
    run_id: str | None = None
    """None for a decision that a client asked for, as `session_id`."""
    session_id: str | None = None


@dataclass(frozen=True)
class HookSpec:
    """One row of the table."""

    payload: type[HookPayload]
    mutable: tuple[str, ...] = ()
    fail_closed: bool = False
    """A time-out or an error fails the activity instead of being logged (HOOK-05)."""
    is_timed: bool = False
    """`hook_timeout_ms` bounds the dispatch (HOOK-04)."""


HOOKS: Mapping[str, HookSpec] = {
    "agent:start": HookSpec(AgentStart, is_timed=True),
    "agent:done": HookSpec(AgentDone, is_timed=True),
    "agent:abort": HookSpec(LoopReport),
    "session:start": HookSpec(SessionEvent, is_timed=True),
    "session:end": HookSpec(SessionEvent, is_timed=True),
    "session:turns": HookSpec(SessionTurns, is_timed=True),
    "system:before": HookSpec(SystemPrompt, ("system",)),
    "system:transform": HookSpec(SystemPrompt, ("system",), fail_closed=True, is_timed=True),
    "context:transform": HookSpec(ContextTransform, ("messages",), fail_closed=True, is_timed=True),
    "turn:before": HookSpec(
        TurnBefore, ("max_tokens", "model_options"), fail_closed=True, is_timed=True
    ),
    "turn:after": HookSpec(TurnAfter, is_timed=True),
    "tool-results:after": HookSpec(ToolResultsAfter, is_timed=True),
    "usage": HookSpec(UsageReport, ("usage",)),
    "stream:start": HookSpec(StreamEvent, fail_closed=True, is_timed=True),
    "stream:text": HookSpec(StreamEvent),
    "stream:thinking": HookSpec(StreamEvent),
    "stream:end": HookSpec(StreamEvent, is_timed=True),
    "provider:input-transformations": HookSpec(InputTransformations),
    "stream:retry": HookSpec(LoopReport),
    "model:fallback": HookSpec(LoopReport),
    "steer:inject": HookSpec(LoopReport),
    "budget:exceeded": HookSpec(LoopReport),
    "pairing:repair": HookSpec(PairingRepair),
    "tool:gate": HookSpec(ToolGate, ("block", "reason", "result"), fail_closed=True),
    "tool:before": HookSpec(ToolHook),
    "tool:progress": HookSpec(ToolProgress),
    "tool:transform": HookSpec(ToolTransform, ("result", "is_error")),
    "tool:after": HookSpec(ToolAfter),
    "tool:error": HookSpec(ToolFailed, ("result",)),
    "tool:unknown": HookSpec(ToolFailed, ("result",)),
    "validation:reject": HookSpec(ToolFailed, ("result",)),
    "tool-state:commit-failed": HookSpec(ToolStateCommitFailed),
    "oauth:refresh": HookSpec(OAuthRefresh, is_timed=True),
    "decision:start": HookSpec(DecisionStart, is_timed=True),
    "decision:end": HookSpec(DecisionEnd, is_timed=True),
}
"""Every event that fires today."""

Handler = Callable[[Any], Awaitable[None] | None]
"""A handler, plain or async; it gets the event's payload and changes only its mutable fields."""

HookMap = Mapping[str, Handler | Sequence[Handler]]


def check_hook_names(names: Sequence[str]) -> None:
    """Refuse an event that does not exist, naming the nearest that does.

    Raises:
        InvalidRequestError: The first unknown name.

    Implements: RUN-07.
    """
    for name in names:
        if name not in HOOKS:
            near = difflib.get_close_matches(name, list(HOOKS), n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known: {sorted(HOOKS)}."
            raise InvalidRequestError(f"Unknown hook {name!r}. {hint}")


def handlers_of(hooks: HookMap) -> dict[str, tuple[Handler, ...]]:
    """Return each event's handlers in registration order; names are checked."""
    check_hook_names(list(hooks))
    return {
        name: (handlers,) if callable(handlers) else tuple(handlers)
        for name, handlers in hooks.items()
    }
