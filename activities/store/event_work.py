"""Units of work on events: written in commit order, live pieces ended with their turn or call."""

import hashlib
from collections.abc import Sequence

from activities.store.rows import event_row, read_event
from activities.store.work import CHANNEL, Ask, Unit
from zidane_core.events import LIVE_EVENTS, RunEvent

EVERY_ATTEMPT = 2**31 - 1


def _lock_key(session_id: str) -> int:
    digest = hashlib.sha256(session_id.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def lock_session(session_id: str) -> Unit[None]:
    """Make a session's events commit in the order of their numbers.

    Without it a watcher could see event 8 before event 7 is committed, and miss 7. Take it after
    all other writes of the transaction: it is held until the commit.
    """
    yield Ask("lock_events", {"lock": _lock_key(session_id)})


def add_events(session_id: str, events: Sequence[RunEvent]) -> Unit[None]:
    """Write a session's events for good and wake its watchers."""
    if not events:
        return
    yield from lock_session(session_id)
    yield from _insert(session_id, events)


def end_live(
    session_id: str,
    turn_id: str,
    call_id: str = "",
    *,
    events: Sequence[RunEvent] = (),
    attempt: int = EVERY_ATTEMPT,
) -> Unit[None]:
    """Delete the live pieces of a turn or call up to an attempt, and write events."""
    yield from lock_session(session_id)
    yield Ask("delete_live", {"turn_id": turn_id, "call_id": call_id, "attempt": attempt})
    if events:
        yield from _insert(session_id, events)


def _insert(session_id: str, events: Sequence[RunEvent]) -> Unit[None]:
    yield Ask("insert_event", many=[event_row(event) for event in events])
    yield Ask("notify", {"channel": CHANNEL, "session_id": session_id})


def write_batch(events: Sequence[RunEvent]) -> Unit[None]:
    """Write events of any sessions; live ones of a turn or call that has ended are dropped.

    The check stands in the statement and the lock before it, so that a late writer cannot leave
    a piece behind a commit.
    """
    by_session: dict[str, list[RunEvent]] = {}
    for event in events:
        by_session.setdefault(event.session_id, []).append(event)
    for session_id in sorted(by_session, key=_lock_key):
        yield from lock_session(session_id)
        for name, batch in _runs_of_kind(by_session[session_id]):
            yield Ask(name, many=[event_row(event) for event in batch])
        yield Ask("notify", {"channel": CHANNEL, "session_id": session_id})


def _runs_of_kind(events: Sequence[RunEvent]) -> list[tuple[str, list[RunEvent]]]:
    runs: list[tuple[str, list[RunEvent]]] = []
    for event in events:
        name = "insert_live" if event.name in LIVE_EVENTS and event.turn_id else "insert_event"
        if runs and runs[-1][0] == name:
            runs[-1][1].append(event)
        else:
            runs.append((name, [event]))
    return runs


def events_after(session_id: str, seq: int, limit: int) -> Unit[tuple[RunEvent, ...]]:
    """Read a session's events behind a cursor."""
    rows = yield Ask("events_after", {"session_id": session_id, "seq": seq, "limit": limit})
    return tuple(read_event(row) for row in rows)


def last_event(session_id: str) -> Unit[int]:
    """Read the number of a session's last event; 0 when there is none."""
    rows = yield Ask("last_event", {"session_id": session_id})
    return rows[0][0] or 0
