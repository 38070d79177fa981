"""Units of work on turns: begin, commit and fail a model turn; append what precedes it."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from activities.store.event_work import EVERY_ATTEMPT, add_events, end_live
from activities.store.rows import (
    json_text,
    read_json,
    read_receipt,
    read_result,
    read_turn,
    turn_bytes,
    turn_row,
)
from activities.store.work import Ask, Rows, Unit
from zidane_core.content import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent
from zidane_core.session import Turn
from zidane_core.tools import SYNTHETIC_TOOL_RESULT_PLACEHOLDER
from zidane_core.values import Json

_ABORTED_TURNS = uuid.UUID("5f4c5b0e-5f0e-4d83-9c1a-6b8f6f0d7a11")
"""Namespace of the ids of aborted turns."""


@dataclass(frozen=True)
class ResultsTurn:
    """A user turn of tool results, composed when it is appended, from what the store has."""

    id: str
    run_id: str
    created_at: int
    assistant_turn_id: str
    """The turn that made the calls."""
    call_ids: tuple[str, ...]
    """The calls in the model's order."""
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    """Error results that the loop made itself, by call id (skipped, blocked, cancelled)."""


PendingTurn = Turn | ResultsTurn
"""A turn to append; its parent is the turn before it, whatever `parent_id` says."""


@dataclass(frozen=True)
class StoredTurn:
    """A turn with its place and size, as the cache wants it."""

    turn: Turn
    depth: int
    bytes: int


@dataclass(frozen=True)
class TurnStart:
    """What `begin_turn` found and did."""

    receipt: Json | None
    """The receipt of an attempt that finished this turn: return it and do nothing."""
    head: str | None
    """The end of the path after appending: the parent of the turn to come."""
    appended: tuple[Turn, ...]
    """The appended turns as they are stored."""
    previous_attempts: int
    """How often this turn was begun before."""
    attempt: int
    """Number of this execution, above all earlier ones: for its events and `fail_turn`."""
    stored: tuple[StoredTurn, ...] = ()


def turn_depth(turn_id: str | None) -> Unit[int]:
    """Return how many turns precede a turn; -1 for no turn.

    Raises:
        StoreError: There is no such turn.
    """
    if turn_id is None:
        return -1
    rows = yield Ask("turn_depth", {"id": turn_id})
    if not rows:
        raise StoreError(
            f"Turn {turn_id!r} is not in the store, so nothing can be appended to it. Check that "
            "ZIDANE_STORE is the database of this session.",
            turn_id=turn_id,
            retryable=False,
        )
    return rows[0][0]


def append_turns(
    pending: Sequence[PendingTurn], *, head: str | None, session_id: str, run_id: str
) -> Unit[tuple[StoredTurn, ...]]:
    """Append turns to `head` in order; what is stored already stays as it is and is returned."""
    if not pending:
        return ()
    depth = yield from turn_depth(head)
    stored: list[StoredTurn] = []
    parent = head
    for entry in pending:
        turn = (yield from _compose(entry)) if isinstance(entry, ResultsTurn) else entry
        turn = turn.model_copy(
            update={"parent_id": parent, "run_id": turn.run_id or run_id or None}
        )
        placed = yield from insert_turn(turn, session_id=session_id, depth=depth + 1)
        stored.append(placed)
        parent, depth = placed.turn.id, placed.depth
    return tuple(stored)


def insert_turn(turn: Turn, *, session_id: str, depth: int) -> Unit[StoredTurn]:
    """Store a turn unless its id is there, and return the one that is stored."""
    turn, row = turn_row(turn, session_id=session_id, depth=depth)
    inserted = yield Ask("insert_turn", row)
    if inserted:
        return StoredTurn(turn, depth, turn_bytes(row))
    rows = yield Ask("turn", {"id": turn.id})
    return StoredTurn(read_turn(rows[0]), rows[0][3], turn_bytes(rows[0]))


def _compose(entry: ResultsTurn) -> Unit[Turn]:
    rows = yield Ask("call_results", {"turn_id": entry.assistant_turn_id})
    results = {call_id: read_result(text) for call_id, text in rows}
    return Turn(
        id=entry.id,
        run_id=entry.run_id,
        role="user",
        created_at=entry.created_at,
        content=tuple(
            results.get(call_id)
            or ToolResultBlock(
                call_id=call_id,
                output=entry.made.get(call_id, SYNTHETIC_TOOL_RESULT_PLACEHOLDER),
                is_error=True,
            )
            for call_id in entry.call_ids
        ),
    )


def move_head(
    *, session_id: str, run_id: str, head: str, now: int, phase: str | None = None
) -> Unit[None]:
    """Make `head` the end of the session and of its run; no-op when the run has ended.

    Raises:
        StoreError: The run was never started.
    """
    if phase is None:
        moved = yield Ask("move_run_head", {"run_id_": run_id, "head_": head})
    else:
        params = {"run_id_": run_id, "head_": head, "phase_": phase, "reason_": None}
        moved = yield Ask("advance_run", params)
    if moved:
        row = {"id": session_id, "head": head, "agent": "", "created_at": now, "updated_at": now}
        yield Ask("touch_session", row)
    elif not (yield Ask("run", {"run_id": run_id})):
        raise StoreError(
            f"Run {run_id!r} is not in the store: call start_run first, or check that ZIDANE_STORE "
            "is the database that the run was started with.",
            run_id=run_id,
            retryable=False,
        )


def begin_turn(
    pending: Sequence[PendingTurn],
    *,
    run_id: str,
    session_id: str,
    turn_id: str,
    attempt: int,
    head: str | None,
    now: int,
    events: Sequence[RunEvent],
) -> Unit[TurnStart]:
    """Append, keep what a dead attempt had streamed, and write the turn's intent."""
    rows = yield Ask("call", {"turn_id": turn_id, "call_id": ""})
    state, before, receipt = rows[0] if rows else ("started", 0, None)
    if state != "started":
        found = read_receipt(receipt, what=f"The receipt of turn {turn_id!r}")
        return TurnStart(found, turn_id, (), before, before)
    stored = yield from append_turns(pending, head=head, session_id=session_id, run_id=run_id)
    end = stored[-1].turn.id if stored else head
    aborted = (
        (yield from _keep_streamed(turn_id, end, session_id=session_id, run_id=run_id, now=now))
        if rows
        else False
    )
    attempt = max(before + 1, attempt)
    yield Ask(
        "start_call",
        intent_row(turn_id, "", run_id, session_id, attempt=attempt, name="", now=now),
    )
    if stored and end is not None:
        yield from move_head(session_id=session_id, run_id=run_id, head=end, now=now)
    if aborted:
        yield from end_live(session_id, turn_id, events=events)
    else:
        yield from add_events(session_id, events)
    turns = tuple(entry.turn for entry in stored)
    return TurnStart(None, end, turns, before, attempt, stored)


def intent_row(
    turn_id: str,
    call_id: str,
    run_id: str,
    session_id: str,
    *,
    attempt: int,
    name: str,
    now: int,
    state: Literal["started", "finished", "interrupted"] = "started",
    result: str | None = None,
    receipt: str | None = None,
) -> dict[str, object]:
    """Return a row of `calls`; an empty `call_id` is a model turn."""
    return {
        "turn_id": turn_id,
        "call_id": call_id,
        "run_id": run_id,
        "session_id": session_id,
        "kind": "call" if call_id else "model",
        "attempt": attempt,
        "state": state,
        "name": name,
        "result": result,
        "receipt": receipt,
        "started_at": now,
    }


def _keep_streamed(
    turn_id: str, parent: str | None, *, session_id: str, run_id: str, now: int
) -> Unit[bool]:
    """Write an aborted turn per attempt that left live pieces; say whether there were any."""
    rows = yield Ask("live_of_turn", {"turn_id": turn_id})
    for attempt, pieces in itertools.groupby(rows, key=lambda row: row[0]):
        yield from _add_aborted(
            turn_id,
            attempt,
            _blocks(tuple(pieces)),
            parent,
            session_id=session_id,
            run_id=run_id,
            now=now,
        )
    return bool(rows)


def _blocks(rows: Rows) -> tuple[ContentBlock, ...]:
    blocks: list[ContentBlock] = []
    for name, pieces in itertools.groupby(rows, key=lambda row: row[1]):
        text = "".join(
            str(read_json(fields, what="A live event").get("delta", "")) for _, _, fields in pieces
        )
        if text:
            blocks.append(TextBlock(text=text) if name == "text" else ThinkingBlock(text=text))
    return tuple(blocks)


def _add_aborted(
    turn_id: str,
    attempt: int,
    content: tuple[ContentBlock, ...],
    parent: str | None,
    *,
    session_id: str,
    run_id: str,
    now: int,
) -> Unit[None]:
    if not content:
        return
    depth = yield from turn_depth(parent)
    aborted = Turn(
        id=str(uuid.uuid5(_ABORTED_TURNS, f"{turn_id}:{attempt}")),
        parent_id=parent,
        role="assistant",
        content=content,
        created_at=now,
        run_id=run_id,
        aborted=True,
    )
    yield from insert_turn(aborted, session_id=session_id, depth=depth + 1)


def commit_turn(
    turn: Turn,
    *,
    session_id: str,
    run_id: str,
    receipt: Json,
    phase: str,
    events: Sequence[RunEvent],
) -> Unit[tuple[Json, StoredTurn | None]]:
    """Finish a turn; the first to finish it wins, for the others nothing changes."""
    row = intent_row(
        turn.id,
        "",
        run_id,
        session_id,
        attempt=1,
        name="",
        now=turn.created_at,
        state="finished",
        receipt=json_text(receipt),
    )
    if not (yield Ask("end_call", row)):
        rows = yield Ask("call", {"turn_id": turn.id, "call_id": ""})
        return read_receipt(rows[0][2], what=f"The receipt of turn {turn.id!r}"), None
    depth = yield from turn_depth(turn.parent_id)
    turn = turn.model_copy(update={"run_id": turn.run_id or run_id})
    stored = yield from insert_turn(turn, session_id=session_id, depth=depth + 1)
    yield from move_head(
        session_id=session_id, run_id=run_id, head=turn.id, now=turn.created_at, phase=phase
    )
    yield from end_live(session_id, turn.id, events=events)
    return receipt, stored


def fail_turn(
    *,
    session_id: str,
    run_id: str,
    turn_id: str,
    attempt: int,
    head: str | None,
    now: int,
    partial: tuple[ContentBlock, ...],
    receipt: Json,
    events: Sequence[RunEvent],
) -> Unit[None]:
    """Keep what a failed attempt had streamed; no-op when another attempt finished the turn."""
    noted = yield Ask("note_failure", {"turn_id_": turn_id, "receipt_": json_text(receipt)})
    if not noted:
        return
    yield from _add_aborted(
        turn_id, attempt, partial, head, session_id=session_id, run_id=run_id, now=now
    )
    yield from end_live(session_id, turn_id, events=events, attempt=min(attempt, EVERY_ATTEMPT))
