"""Core values to rows and back: JSON as text, and never a raw NUL or half a surrogate pair."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from zidane_core.content import CONTENT, ToolResultBlock, clean_json, clean_text
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent
from zidane_core.session import RunRecord, Turn
from zidane_core.usage import AgentStats, TurnUsage
from zidane_core.values import Json, Value

T = TypeVar("T")
Row = Sequence[Any]
_FLAGS = ("injected", "aborted", "display", "message_id", "repairs")
_RUN_FIELDS = tuple(RunRecord.model_fields)
_RUN_TEXTS = ("agent", "prompt", "model", "label", "reason")


def plain(text: str) -> str:
    """Return text for a column that is not JSON: U+FFFD for NUL, which PostgreSQL refuses."""
    return clean_text(text).replace("\x00", "\ufffd")


def json_text(value: Any) -> str:
    """Return JSON as text; pydantic escapes NUL, broken surrogates become U+FFFD."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:
        return to_json(clean_json(json.loads(json.dumps(value)))).decode()


def value_text(value: Value) -> str:
    """Return a value as JSON text without the fields that hold their default."""
    try:
        return value.model_dump_json(exclude_defaults=True)
    except PydanticSerializationError:
        return json_text(value.model_dump(mode="python", exclude_defaults=True))


def read_json(text: str, *, what: str) -> Any:
    """Read JSON that the store wrote.

    Raises:
        StoreError: It is not JSON, so the database is damaged; `what` names the place.
    """
    try:
        return from_json(text)
    except ValueError as error:
        raise _damaged(what, error) from error


def _damaged(what: str, error: Exception) -> StoreError:
    reason = str(error).splitlines()[0]
    return StoreError(
        f"{what} cannot be read back from the store ({reason}): the database is damaged. "
        "Restore it from a backup; nothing was changed.",
        retryable=False,
    )


def turn_row(turn: Turn, *, session_id: str, depth: int) -> tuple[Turn, dict[str, Any]]:
    """Return a turn as it will read back, and its row."""
    try:
        content = CONTENT.dump_json(turn.content, exclude_defaults=True).decode()
    except PydanticSerializationError:
        content = json_text(CONTENT.dump_python(turn.content, exclude_defaults=True))
        turn = turn.model_copy(update={"content": CONTENT.validate_json(content)})
    flags = {name: getattr(turn, name) for name in _FLAGS if getattr(turn, name)}
    return turn, {
        "id": turn.id,
        "session_id": session_id,
        "parent_id": turn.parent_id,
        "depth": depth,
        "run_id": turn.run_id,
        "role": turn.role,
        "content": content,
        "usage": value_text(turn.usage) if turn.usage is not None else None,
        "flags": json_text(flags) if flags else None,
        "created_at": turn.created_at,
    }


def read_turn(row: Row) -> Turn:
    """Return the turn of a row of `turns`.

    Raises:
        StoreError: Its JSON is damaged.
    """
    (turn_id, _session, parent_id, _depth, run_id, role, content, usage, flags, created_at) = row
    what = f"Turn {turn_id!r}"
    try:
        marks: dict[str, Any] = read_json(flags, what=what) if flags is not None else {}
        return Turn(
            **marks,
            id=turn_id,
            parent_id=parent_id,
            run_id=run_id,
            role=role,
            content=CONTENT.validate_json(content),
            usage=TurnUsage.model_validate_json(usage) if usage is not None else None,
            created_at=created_at,
        )
    except ValidationError as error:
        raise _damaged(what, error) from error


def turn_bytes(row: Row | Mapping[str, Any]) -> int:
    """Return the size of a turn's content as stored."""
    content = row["content"] if isinstance(row, Mapping) else row[6]
    return len(content)


def read_usage(text: str) -> TurnUsage:
    """Return the usage of a turn."""
    return _read(TurnUsage, text, what="A turn's usage")


def read_result(text: str) -> ToolResultBlock:
    """Return the result of a call."""
    return _read(ToolResultBlock, text, what="A call's result")


def _read(kind: type[T], text: str, *, what: str) -> T:
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise _damaged(what, error) from error


def run_row(record: RunRecord) -> dict[str, Any]:
    """Return a run's row."""
    row = {name: getattr(record, name) for name in _RUN_FIELDS}
    for name in _RUN_TEXTS:
        if row[name] is not None:
            row[name] = plain(row[name])
    row["stats"] = value_text(record.stats)
    row["error"] = json_text(record.error) if record.error is not None else None
    return row


def read_run(row: Row) -> RunRecord:
    """Return the run of a row of `runs`, whose columns are RunRecord's fields in order."""
    fields = dict(zip(RUN_COLUMNS, row, strict=True))
    what = f"Run {fields['run_id']!r}"
    try:
        fields["stats"] = AgentStats.model_validate_json(fields["stats"])
        if fields["error"] is not None:
            fields["error"] = read_json(fields["error"], what=what)
        return RunRecord.model_validate(fields)
    except ValidationError as error:
        raise _damaged(what, error) from error


RUN_COLUMNS = (
    "run_id",
    "session_id",
    "agent",
    "status",
    "prompt",
    "model",
    "started_at",
    "ended_at",
    "head",
    "base_head",
    "label",
    "depth",
    "parent_run_id",
    "parent_call_id",
    "resumed_from_run_id",
    "manifest",
    "phase",
    "reason",
    "stats",
    "error",
)
"""The columns of `runs` in the order in which statements give them."""


def event_row(event: RunEvent) -> dict[str, Any]:
    """Return an event's row; its `call_id` field, if any, ties a live piece to its call."""
    call_id = event.fields.get("call_id")
    return {
        "run_id": event.run_id,
        "session_id": event.session_id,
        "turn_id": event.turn_id,
        "call_id": plain(call_id) if isinstance(call_id, str) else "",
        "attempt": event.attempt,
        "name": event.name,
        "at": event.at,
        "fields": json_text(event.fields),
        "origin": event.origin,
    }


def read_event(row: Row) -> RunEvent:
    """Return the event of a row of `events`."""
    seq, run_id, session_id, turn_id, _call_id, attempt, name, at, fields, origin = row
    what = f"Event {seq} of session {session_id!r}"
    try:
        return RunEvent(
            seq=seq,
            run_id=run_id,
            session_id=session_id,
            name=name,
            at=at,
            turn_id=turn_id,
            attempt=attempt,
            fields=read_json(fields, what=what),
            origin=origin,
        )
    except ValidationError as error:
        raise _damaged(what, error) from error


def read_state(rows: Sequence[Row]) -> dict[str, Any]:
    """Return a scope's tool state."""
    return {key: read_json(value, what=f"Tool state {key!r}") for key, value in rows}


def read_receipt(text: str | None, *, what: str) -> Json:
    """Return a receipt."""
    return read_json(text if text is not None else "null", what=what)
