"""Units of work on tool calls: the intent before, the one result after, and tool state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from activities.store.event_work import add_events, end_live
from activities.store.rows import (
    json_text,
    plain,
    read_receipt,
    read_state,
    read_turn,
    value_text,
)
from activities.store.turn_work import intent_row
from activities.store.work import Ask, Unit
from zidane_core.content import ToolCallBlock, ToolResultBlock
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent
from zidane_core.session import Turn
from zidane_core.tool_state import ToolStateOp
from zidane_core.values import Json


@dataclass(frozen=True)
class CallStart:
    """What `begin_call` found and did."""

    receipt: Json | None
    """The receipt of an attempt that ended this call: return it and do nothing."""
    interrupted: bool
    """An earlier attempt began and must not be repeated: finish the call as interrupted."""
    call: ToolCallBlock
    state: Mapping[str, JsonValue]
    """The session's tool state before the call."""


def begin_call(
    turn: Turn | None,
    *,
    run_id: str,
    session_id: str,
    turn_id: str,
    call_id: str,
    name: str,
    attempt: int,
    repeatable: bool,
    read_only: bool,
    now: int,
    events: Sequence[RunEvent],
) -> Unit[CallStart]:
    """Write a call's intent; `turn` is the stored turn when the caller has it at hand."""
    if turn is None:
        rows = yield Ask("turn", {"id": turn_id})
        turn = read_turn(rows[0]) if rows else None
    call = _find_call(turn, turn_id, call_id)
    rows = yield Ask("call", {"turn_id": turn_id, "call_id": call_id})
    state, before, receipt = rows[0] if rows else ("started", 0, None)
    snapshot = yield from tool_state(session_id)
    if state != "started":
        found = read_receipt(receipt, what=f"The receipt of call {call_id!r}")
        return CallStart(found, False, call, snapshot)
    if rows and not (repeatable or read_only):
        return CallStart(None, True, call, snapshot)
    if not read_only:
        yield Ask(
            "start_call",
            intent_row(
                turn_id,
                call_id,
                run_id,
                session_id,
                attempt=max(attempt, before + 1),
                name=plain(name),
                now=now,
            ),
        )
        yield from add_events(session_id, events)
    return CallStart(None, False, call, snapshot)


def _find_call(turn: Turn | None, turn_id: str, call_id: str) -> ToolCallBlock:
    calls = turn.tool_calls if turn is not None else ()
    for call in calls:
        if call.id == call_id:
            return call
    known = f"has the calls {[call.id for call in calls]}" if turn is not None else "is not there"
    raise StoreError(
        f"Call {call_id!r} of turn {turn_id!r} is not in the store: that turn {known}. Check that "
        "ZIDANE_STORE is the database of this session.",
        turn_id=turn_id,
        call_id=call_id,
        retryable=False,
    )


def finish_call(
    *,
    run_id: str,
    session_id: str,
    turn_id: str,
    call_id: str,
    name: str,
    attempt: int,
    result: ToolResultBlock,
    receipt: Json,
    ops: Sequence[ToolStateOp],
    interrupted: bool,
    now: int,
    events: Sequence[RunEvent],
) -> Unit[Json]:
    """Write a call's result, receipt and ops together; the first to do so wins."""
    row = intent_row(
        turn_id,
        call_id,
        run_id,
        session_id,
        attempt=attempt,
        name=plain(name),
        now=now,
        state="interrupted" if interrupted else "finished",
        result=value_text(result),
        receipt=json_text(receipt),
    )
    if not (yield Ask("end_call", row)):
        rows = yield Ask("call", {"turn_id": turn_id, "call_id": call_id})
        return read_receipt(rows[0][2], what=f"The receipt of call {call_id!r}")
    yield from commit_state(session_id, ops, op_id=call_id)
    yield from end_live(session_id, turn_id, call_id, events=events)
    return receipt


def tool_state(scope: str) -> Unit[dict[str, JsonValue]]:
    """Read a scope's tool state."""
    rows = yield Ask("tool_state", {"scope": scope})
    return read_state(rows)


def commit_state(scope: str, ops: Sequence[ToolStateOp], *, op_id: str) -> Unit[None]:
    """Apply ops in order; the same ops again change nothing more."""
    for op in ops:
        key = plain(op.key)
        if op.delete:
            yield Ask("delete_state", {"scope": scope, "key": key})
        else:
            row = {"scope": scope, "key": key, "value": json_text(op.value), "op_id": op_id}
            yield Ask("set_state", row)
