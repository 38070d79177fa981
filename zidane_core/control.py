"""Client to run: what signals and the `answer` update carry, read by hand from any JSON."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, JsonValue, ValidationError

from zidane_core.content import Prompt, clean_json
from zidane_core.runs import MAX_PAYLOAD_BYTES
from zidane_core.values import Tagged, UserInput

PauseMode = Literal["hold", "return"]
ControlName = Literal["steer", "follow_up", "pause", "resume", "abort", "suspend"]


class QueuedUserMessage(UserInput):
    """A message for a run that works.

    Implements: CTL-03, CTL-04.
    """

    prompt: Prompt
    id: str | None = None
    """The caller's own id: a second message with it is ignored."""
    system_notes: tuple[str, ...] = ()
    """Notes added to the message as marked text blocks."""


class Steer(Tagged):
    """Add a message while the run works; calls of the turn that have not started are skipped."""

    kind: Literal["steer"] = "steer"
    message: QueuedUserMessage


class FollowUp(Tagged):
    """Add a message for when the run would otherwise end (CTL-02)."""

    kind: Literal["follow_up"] = "follow_up"
    message: QueuedUserMessage


class Pause(Tagged):
    """Stop at the next turn boundary: hold until `resume`, or end as paused (CTL-07)."""

    kind: Literal["pause"] = "pause"
    mode: PauseMode = "hold"


class Resume(Tagged):
    """Leave pause or parked."""

    kind: Literal["resume"] = "resume"


class Abort(Tagged):
    """Cancel what runs and end as aborted, keeping all turns (CTL-09)."""

    kind: Literal["abort"] = "abort"
    reason: str | None = None


class Suspend(Tagged):
    """Cancel what runs and end as suspended, resumable (CTL-08)."""

    kind: Literal["suspend"] = "suspend"


class Answer(Tagged):
    """A person's answer to an open question; checked against the open ones before it gets here."""

    kind: Literal["answer"] = "answer"
    call_id: str
    answer: JsonValue


class Refused(Tagged):
    """A message that could not be read; it only leaves an event behind (K-TEMPORAL-15)."""

    kind: Literal["refused"] = "refused"
    name: str
    reason: str


Control = Annotated[
    Steer | FollowUp | Pause | Resume | Abort | Suspend | Answer | Refused, Discriminator("kind")
]
"""Any message from a client."""


class _PausePayload(UserInput):
    mode: PauseMode = "hold"


class _ReasonPayload(UserInput):
    reason: str | None = None


def parse_control(name: ControlName, payload: Any, *, size: int) -> Control:
    """Read a signal's payload; a bad one becomes Refused and never raises.

    Args:
        name: The signal's name.
        payload: What the sender sent, decoded from JSON; None when nothing was sent.
        size: Its size in bytes; more than 256 KiB is refused.

    Implements: K-TEMPORAL-15.
    """
    if size > MAX_PAYLOAD_BYTES:
        return Refused(
            name=name,
            reason=f"the payload has {size} bytes, at most {MAX_PAYLOAD_BYTES} are taken; put long "
            "text in a file of the workspace",
        )
    try:
        return _read(name, clean_json(payload))
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "payload"
        return Refused(name=name, reason=f"{path}: {first['msg']}, got {str(payload)[:200]!r}")
    except ValueError as error:
        return Refused(name=name, reason=str(error))


def _read(name: ControlName, payload: Any) -> Control:
    match name:
        case "steer":
            return Steer(message=_message(payload))
        case "follow_up":
            return FollowUp(message=_message(payload))
        case "pause":
            return Pause(mode=_PausePayload.model_validate(payload or {}).mode)
        case "resume":
            return Resume()
        case "suspend":
            return Suspend()
        case "abort":
            reason = {"reason": payload} if isinstance(payload, str) else (payload or {})
            return Abort(reason=_ReasonPayload.model_validate(reason).reason)


def _message(payload: Any) -> QueuedUserMessage:
    if isinstance(payload, str):
        payload = {"prompt": payload}
    if not isinstance(payload, Mapping):
        raise ValueError(
            f"a message is text or an object with 'prompt', got {str(payload)[:200]!r}"
        )
    message = QueuedUserMessage.model_validate(payload)
    if not message.prompt:
        raise ValueError("the message is empty")
    return message
