"""A run from outside: the request that starts it, its status while it works, its result."""

import difflib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, cast

from pydantic import Field, JsonValue, ValidationError

from zidane_core.behavior import ThinkingLevel
from zidane_core.content import Prompt, clean_json
from zidane_core.errors import InvalidRequestError
from zidane_core.session import SessionEndStatus
from zidane_core.usage import AgentStats, TurnFinishReason
from zidane_core.values import Json, UserInput, Value

MAX_PAYLOAD_BYTES = 262_144
"""Largest payload that a client or an activity hands to Temporal; content goes to the store."""
MAX_RESULT_TEXT_BYTES = 65_536
"""Largest `RunResult.text`; the store has the whole."""


class ModelTarget(UserInput):
    """A provider and one of its models; at least one of the two (CAT-05)."""

    provider: str | None = None
    """None: every provider that has a key and may know the model, in order."""
    model: str | None = None
    """None: the provider's own default."""


OnProviderFailure = Literal["park", "fail"]


class RunRequest(UserInput):
    """What starts a run; all but `agent` is optional. The workflow's one argument.

    Implements: RUN-02 to RUN-23.
    """

    agent: str
    prompt: Prompt | None = None
    """Text or parts; needed unless the session already holds turns (RUN-02)."""
    session_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._:-]{1,200}$")
    """The workflow's id is `zidane-<session_id>`; minted by the client when None."""
    model: str | tuple[str | ModelTarget, ...] | None = None
    """`provider:model`, a model's name alone, `provider:` for its default model, or several of
    these in fallback order; None takes the agent's (CAT-05)."""
    system: str | None = None
    thinking: ThinkingLevel | None = None
    behavior: Json | None = None
    """Fields of AgentBehavior that override the agent's (RUN-04)."""
    model_options: Mapping[str, JsonValue] | None = None
    metadata: Json | None = None
    """The host's own facts; read by nobody here, kept in the workflow's memo (RUN-17)."""
    tools: tuple[str, ...] | None = None
    """Names of the agent's tools for this run; empty is none, None is all (RUN-06)."""
    hooks: Mapping[str, tuple[str, ...]] | None = None
    """Event to names of the agent's callables, for this run only (RUN-07)."""
    workspace: str | None = None
    """Absolute path of the folder in which tools work; None is the worker's own."""
    resume_run_id: str | None = None
    """Continue from the turns of this run of the session (RUN-14)."""
    run_label: str | None = None
    stream: bool = True
    """Whether text is written live to the store for watchers."""
    on_provider_failure: OnProviderFailure = "park"
    """What to do when a model call fails for good on every target."""
    depth: int = Field(default=0, ge=0)
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    tracing_context: Mapping[str, str] | None = None


def parse_request(payload: Any) -> RunRequest:
    """Read a run request as some client sent it.

    Raises:
        InvalidRequestError: Names the field, the value, and the nearest field that exists.
    """
    if not isinstance(payload, dict):
        raise InvalidRequestError(
            f"A run request is a JSON object with at least 'agent', got {type(payload).__name__}."
        )
    try:
        return RunRequest.model_validate(clean_json(cast(JsonValue, payload)))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "request"
        if first["type"] != "extra_forbidden":
            raise InvalidRequestError(
                f"Bad value for {path!r} in the run request: {str(first['input'])[:200]!r}. "
                f"{first['msg']}.",
                field=path,
            ) from error
        near = difflib.get_close_matches(path, list(RunRequest.model_fields), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {list(RunRequest.model_fields)}."
        raise InvalidRequestError(
            f"Unknown field {path!r} in the run request. {hint}", field=path
        ) from error


class Phase(StrEnum):
    """Where a run stands."""

    STARTING = "starting"
    STREAMING = "streaming"
    TOOLS = "tools"
    WAITING = "waiting"
    PAUSED = "paused"
    PARKED = "parked"
    COMPACTING = "compacting"
    FINISHING = "finishing"
    DONE = "done"


class QueuedMessage(Value):
    """A message that no turn took yet, as status and result list it."""

    queue: Literal["steer", "follow_up"]
    prompt: Prompt
    id: str | None = None


class OpenQuestion(Value):
    """A call that waits for a person."""

    call_id: str
    tool: str
    text: str
    """The question, its first 512 bytes."""


class RunStatus(Value):
    """Answer of the `status` query."""

    phase: Phase
    session_id: str
    run_id: str
    agent: str
    turn: int = 0
    """Model turns so far."""
    reason: str | None = None
    """Why it is paused or parked, in one sentence."""
    model: str | None = None
    """The target in use."""
    queued: tuple[QueuedMessage, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    running_calls: tuple[str, ...] = ()
    """Calls that run now, as `name (call id)`."""
    stats: AgentStats = AgentStats()
    head: str | None = None
    last_text: str | None = None


class RunResult(Value):
    """How a run ended. The workflow's result, or the details of its failure."""

    status: SessionEndStatus
    text: str = ""
    """The last assistant text, up to 64 KiB; past that its head with a note."""
    output: JsonValue = None
    session_id: str
    run_id: str
    head: str | None = None
    stats: AgentStats = AgentStats()
    error: Json | None = None
    """`type` and `message`; None unless the run failed or a budget ended it."""
    finish_reason: TurnFinishReason | None = None
    """Why the last model turn ended, when not by itself: `length` means that the text is cut
    (K-ANTHROPIC-05). Written only then."""
    output_refused: tuple[str, ...] = ()
    """Why answers before `output` were refused, so that a caller can doubt it (K-OUTPUT-02).
    Written only when there were any."""
    unconsumed: tuple[QueuedMessage, ...] = ()
    """Messages that were accepted and that no turn took (K-STEER-01)."""

    def full(self) -> Json:
        """Return every field of the contract, defaults included, and what else there is to say."""
        fields: Json = self.model_dump(mode="json", exclude_none=False)
        unsaid = [name for name in ("finish_reason", "output_refused") if not fields[name]]
        return {name: value for name, value in fields.items() if name not in unsaid}
