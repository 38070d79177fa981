"""Units of work on runs and sessions, and what is read of them."""

from collections.abc import Sequence

from activities.store.event_work import add_events
from activities.store.rows import json_text, plain, read_run, read_turn, read_usage, run_row
from activities.store.turn_work import PendingTurn, StoredTurn, append_turns
from activities.store.work import Ask, Params, Rows, Unit
from zidane_core.events import RunEvent
from zidane_core.session import RunRecord, Turn
from zidane_core.usage import TurnUsage
from zidane_core.values import Json


def fetch(name: str, params: Params) -> Unit[Rows]:
    """Read the rows of one statement."""
    return (yield Ask(name, params))


def start_run(
    record: RunRecord,
    *,
    manifest: Json,
    manifest_hash: str,
    turns: Sequence[Turn],
    events: Sequence[RunEvent],
) -> Unit[tuple[StoredTurn, ...]]:
    """Write a run, its manifest and its first turns; no-op when the run is there."""
    yield Ask("insert_manifest", {"hash": manifest_hash, "body": json_text(manifest)})
    session = {
        "id": record.session_id,
        "head": None,
        "agent": plain(record.agent),
        "created_at": record.started_at,
        "updated_at": record.started_at,
    }
    yield Ask("ensure_session", session)
    row = run_row(record.model_copy(update={"manifest": record.manifest or manifest_hash}))
    row["head"] = turns[-1].id if turns else record.head or record.base_head
    is_new = bool((yield Ask("insert_run", row)))
    stored = yield from append_turns(
        turns, head=record.base_head, session_id=record.session_id, run_id=record.run_id
    )
    if is_new:
        if stored:
            yield Ask("touch_session", {**session, "head": stored[-1].turn.id})
        yield from add_events(record.session_id, events)
    return stored


def finish_run(
    record: RunRecord,
    *,
    append: Sequence[PendingTurn],
    head: str | None,
    events: Sequence[RunEvent],
) -> Unit[tuple[str | None, tuple[StoredTurn, ...]]]:
    """Append, and write the run as it ended; the first to finish it wins."""
    rows = yield Ask("run", {"run_id": record.run_id})
    if rows and (known := read_run(rows[0])).status != "running":
        return known.head, ()
    stored = yield from append_turns(
        append, head=head, session_id=record.session_id, run_id=record.run_id
    )
    end = stored[-1].turn.id if stored else head
    row = run_row(_ended(record, read_run(rows[0]) if rows else record, end))
    if not (yield Ask("finish_run", row)):
        rows = yield Ask("run", {"run_id": record.run_id})
        return read_run(rows[0]).head, stored
    at = record.ended_at or record.started_at
    session = {
        "id": record.session_id,
        "head": end,
        "agent": plain(record.agent),
        "created_at": record.started_at,
        "updated_at": at,
    }
    yield Ask("touch_session" if end is not None else "ensure_session", session)
    yield from add_events(record.session_id, events)
    return end, stored


def _ended(record: RunRecord, known: RunRecord, head: str | None) -> RunRecord:
    """Return the record over what the run's start stored."""
    given = {name: getattr(record, name) for name in record.model_fields_set}
    phase = record.phase if "phase" in given else "done"
    changed = {**given, "head": head, "phase": phase, "reason": record.reason}
    return known.model_copy(update=changed)


def set_phase(
    run_id: str, *, phase: str, reason: str | None, events: Sequence[RunEvent]
) -> Unit[None]:
    """Note a run's phase; no-op when it has ended."""
    params = {
        "run_id_": run_id,
        "phase_": phase,
        "reason_": plain(reason) if reason is not None else None,
    }
    rows = yield Ask("set_phase", params)
    if rows:
        yield from add_events(rows[0][0], events)


def match_runs(prefix: str) -> Unit[tuple[RunRecord, ...]]:
    """Find runs by an id or its beginning: an exact id alone, else the latest run per session."""
    rows = yield Ask("match_runs", {"prefix": plain(prefix)})
    found = [read_run(row) for row in rows]
    exact = [run for run in found if prefix in (run.run_id, run.session_id)]
    latest: dict[str, RunRecord] = {}
    for run in exact or found:
        latest.setdefault(run.session_id, run)
    return tuple(latest.values())


def read_turns_of_run(rows: Rows) -> tuple[Turn, ...]:
    """Order a run's turns: by place, and at one place aborted attempts before the turn itself."""
    ranked = [(row[3], row[9], read_turn(row)) for row in rows]
    ranked.sort(key=lambda entry: (entry[0], entry[1], not entry[2].aborted, entry[2].id))
    return tuple(turn for _, _, turn in ranked)


def usage_of_run(run_id: str) -> Unit[tuple[TurnUsage, ...]]:
    """Read the usage of a run's turns on its path, without their contents."""
    rows = yield Ask("run", {"run_id": run_id})
    head = read_run(rows[0]).head if rows else None
    if head is None:
        return ()
    rows = yield Ask("usage_up", {"head": head, "run_id": run_id})
    return tuple(read_usage(row[0]) for row in rows)
