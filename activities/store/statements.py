"""Every statement of the store, and the one that writes them to `compiled.json` as SQL.

After a change here, in tables.py or in migrations/, run `python -m activities.store.statements`;
a test fails when the file is stale. Workers read the file and never import this module.
"""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.asyncpg import dialect as AsyncpgDialect
from sqlalchemy.dialects.sqlite import dialect as SqliteDialect
from sqlalchemy.engine import Dialect

from activities.store.tables import (
    blobs,
    calls,
    events,
    manifests,
    runs,
    sessions,
    tool_state,
    turns,
)
from zidane_core.events import LIVE_EVENTS

COMPILED = Path(__file__).with_name("compiled.json")
_MIGRATIONS = Path(__file__).with_name("migrations")
_DIALECTS: dict[str, tuple[Callable[[], Dialect], Any]] = {
    "sqlite": (SqliteDialect, sqlite.insert),
    "postgresql": (AsyncpgDialect, postgresql.insert),
}
_STARTED = sa.literal_column("'started'", sa.Text)
_MODEL = sa.literal_column("''", sa.Text)
_LIVE = [sa.literal_column(repr(name), sa.Text) for name in sorted(LIVE_EVENTS)]


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.Text)


def _number(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.BigInteger)


def _values(table: sa.Table, *names: str) -> dict[str, sa.BindParameter[Any]]:
    columns = [table.c[name] for name in names] if names else list(table.columns)
    return {column.name: sa.bindparam(column.name, type_=column.type) for column in columns}


def statements(insert: Any) -> Mapping[str, sa.Executable]:
    """Return the statements by name, with `insert` of the dialect (they differ in upserts)."""
    return {
        **_session_statements(insert),
        **_run_statements(insert),
        **_turn_statements(insert),
        **_call_statements(insert),
        **_event_statements(insert),
        **_other_statements(insert),
    }


def _session_statements(insert: Any) -> dict[str, sa.Executable]:
    new = insert(sessions).values(_values(sessions))
    return {
        "ensure_session": new.on_conflict_do_nothing(index_elements=["id"]),
        "touch_session": new.on_conflict_do_update(
            index_elements=["id"],
            set_={"head": new.excluded.head, "updated_at": new.excluded.updated_at},
        ),
        "session_head": sa.select(sessions.c.head).where(sessions.c.id == _text("id")),
    }


def _run_statements(insert: Any) -> dict[str, sa.Executable]:
    new = insert(runs).values(_values(runs))
    newest = sa.select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id.desc())
    running = runs.c.status == sa.literal_column("'running'")
    one = runs.c.run_id == _text("run_id_")
    set_phase = {"phase": _text("phase_"), "reason": _text("reason_")}
    prefix = _text("prefix")
    length = sa.func.length(prefix)
    return {
        "insert_run": new.on_conflict_do_nothing(index_elements=["run_id"]).returning(
            runs.c.run_id
        ),
        "finish_run": new.on_conflict_do_update(
            index_elements=["run_id"],
            set_={
                column.name: new.excluded[column.name]
                for column in runs.columns
                if column.name != "run_id"
            },
            where=running,
        ).returning(runs.c.run_id),
        "advance_run": sa.update(runs)
        .where(one, running)
        .values({**set_phase, "head": _text("head_")})
        .returning(runs.c.run_id),
        "move_run_head": sa.update(runs)
        .where(one, running)
        .values({"head": _text("head_")})
        .returning(runs.c.run_id),
        "set_phase": sa.update(runs)
        .where(one, running)
        .values(set_phase)
        .returning(runs.c.session_id),
        "run": sa.select(runs).where(runs.c.run_id == _text("run_id")),
        "latest_run": newest.where(runs.c.session_id == _text("session_id")).limit(1),
        "list_runs": newest.limit(_number("limit")),
        "list_runs_by_status": newest.where(runs.c.status == _text("status")).limit(
            _number("limit")
        ),
        "match_runs": newest.where(
            sa.or_(
                sa.func.substr(runs.c.session_id, 1, length) == prefix,
                sa.func.substr(runs.c.run_id, 1, length) == prefix,
            )
        ),
    }


def _turn_statements(insert: Any) -> dict[str, sa.Executable]:
    up = (
        sa.select(turns.c.id, turns.c.parent_id, turns.c.depth)
        .where(turns.c.id == _text("head"), turns.c.depth > _number("floor"))
        .cte("up", recursive=True)
    )
    up = up.union_all(
        sa.select(turns.c.id, turns.c.parent_id, turns.c.depth)
        .join(up, turns.c.id == up.c.parent_id)
        .where(turns.c.depth > _number("floor"))
    )
    own = (
        sa.select(turns.c.id, turns.c.parent_id, turns.c.depth, turns.c.usage)
        .where(turns.c.id == _text("head"), turns.c.run_id == _text("run_id"))
        .cte("own", recursive=True)
    )
    own = own.union_all(
        sa.select(turns.c.id, turns.c.parent_id, turns.c.depth, turns.c.usage)
        .join(own, turns.c.id == own.c.parent_id)
        .where(turns.c.run_id == _text("run_id"))
    )
    return {
        "insert_turn": insert(turns)
        .values(_values(turns))
        .on_conflict_do_nothing(index_elements=["id"])
        .returning(turns.c.id),
        "turn": sa.select(turns).where(turns.c.id == _text("id")),
        "turn_depth": sa.select(turns.c.depth).where(turns.c.id == _text("id")),
        "turns_of_run": sa.select(turns)
        .where(turns.c.run_id == _text("run_id"))
        .order_by(turns.c.depth, turns.c.created_at, turns.c.id),
        "path_up": sa.select(turns).join(up, turns.c.id == up.c.id).order_by(turns.c.depth),
        "usage_up": sa.select(own.c.usage).where(own.c.usage.is_not(None)).order_by(own.c.depth),
    }


def _call_statements(insert: Any) -> dict[str, sa.Executable]:
    new = insert(calls).values(_values(calls))
    same = calls.c.turn_id == _text("turn_id")
    started = calls.c.state == _STARTED
    return {
        "call": sa.select(calls.c.state, calls.c.attempt, calls.c.receipt).where(
            same, calls.c.call_id == _text("call_id")
        ),
        "start_call": new.on_conflict_do_update(
            index_elements=["turn_id", "call_id"],
            set_={"attempt": new.excluded.attempt, "started_at": new.excluded.started_at},
            where=started,
        ),
        # RETURNING is empty when another attempt has ended the call: its receipt stands.
        "end_call": new.on_conflict_do_update(
            index_elements=["turn_id", "call_id"],
            set_={name: new.excluded[name] for name in ("state", "result", "receipt")},
            where=started,
        ).returning(calls.c.call_id),
        "note_failure": sa.update(calls)
        .where(calls.c.turn_id == _text("turn_id_"), calls.c.call_id == _MODEL, started)
        .values({"receipt": _text("receipt_")})
        .returning(calls.c.turn_id),
        "call_results": sa.select(calls.c.call_id, calls.c.result).where(
            same, calls.c.result.is_not(None)
        ),
    }


def _event_statements(insert: Any) -> dict[str, sa.Executable]:
    names = (
        "run_id",
        "session_id",
        "turn_id",
        "call_id",
        "attempt",
        "name",
        "at",
        "fields",
        "origin",
    )
    binds = _values(events, *names)
    ended = sa.exists(
        sa.select(calls.c.turn_id).where(
            calls.c.turn_id == binds["turn_id"],
            calls.c.call_id == binds["call_id"],
            calls.c.state != _STARTED,
        )
    )
    live = sa.and_(events.c.turn_id == _text("turn_id"), events.c.name.in_(_LIVE))
    return {
        "insert_event": insert(events)
        .values(binds)
        .inline()
        .on_conflict_do_nothing(index_elements=["run_id", "origin"]),
        "insert_live": sa.insert(events).from_select(
            list(names), sa.select(*binds.values()).where(~ended)
        ),
        "live_of_turn": sa.select(events.c.attempt, events.c.name, events.c.fields)
        .where(live, events.c.call_id == _MODEL)
        .order_by(events.c.attempt, events.c.seq),
        "delete_live": sa.delete(events).where(
            live, events.c.call_id == _text("call_id"), events.c.attempt <= _number("attempt")
        ),
        "events_after": sa.select(events)
        .where(events.c.session_id == _text("session_id"), events.c.seq > _number("seq"))
        .order_by(events.c.seq)
        .limit(_number("limit")),
        "last_event": sa.select(sa.func.max(events.c.seq)).where(
            events.c.session_id == _text("session_id")
        ),
    }


def _other_statements(insert: Any) -> dict[str, sa.Executable]:
    state = insert(tool_state).values(_values(tool_state))
    return {
        "insert_manifest": insert(manifests)
        .values(_values(manifests))
        .on_conflict_do_nothing(index_elements=["hash"]),
        "manifest": sa.select(manifests.c.body).where(manifests.c.hash == _text("hash")),
        "insert_blob": insert(blobs)
        .values(_values(blobs))
        .on_conflict_do_nothing(index_elements=["sha256"]),
        "blob": sa.select(blobs.c.body).where(blobs.c.sha256 == _text("sha256")),
        "tool_state": sa.select(tool_state.c.key, tool_state.c.value)
        .where(tool_state.c.scope == _text("scope"))
        .order_by(tool_state.c.key),
        "set_state": state.on_conflict_do_update(
            index_elements=["scope", "key"],
            set_={"value": state.excluded.value, "op_id": state.excluded.op_id},
        ),
        "delete_state": sa.delete(tool_state).where(
            tool_state.c.scope == _text("scope"), tool_state.c.key == _text("key")
        ),
    }


# What only one database has; on SQLite, writers wait for each other anyway.
_POSTGRES_ONLY: dict[str, sa.Executable] = {
    "lock_events": sa.select(sa.func.pg_advisory_xact_lock(_number("lock"))),
    "notify": sa.select(sa.func.pg_notify(_text("channel"), _text("session_id"))),
}


def _compile(statement: sa.Executable, dialect: Dialect) -> dict[str, Any]:
    if not isinstance(statement, sa.ClauseElement):
        raise TypeError(f"{statement!r} cannot be compiled: it is no SQLAlchemy clause")
    compiled = statement.compile(dialect=dialect)
    names: list[str] = getattr(compiled, "positiontup", None) or []
    constants = {
        name: value
        for name, value in (compiled.params or {}).items()
        if name in names and value is not None
    }
    sql = " ".join(str(compiled).split())
    return {"sql": sql, "params": names, **({"constants": constants} if constants else {})}


def _render_migrations(dialect_name: str) -> list[dict[str, Any]]:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.set_main_option("dialect", dialect_name)
    steps: list[dict[str, Any]] = []
    before = "base"
    for step in reversed(list(ScriptDirectory.from_config(config).walk_revisions())):
        buffer = io.StringIO()
        config.output_buffer = buffer
        command.upgrade(config, f"{before}:{step.revision}", sql=True)
        steps.append({"revision": step.revision, "sql": _split(buffer.getvalue())})
        before = step.revision
    return steps


def _split(script: str) -> list[str]:
    lines = [line for line in script.splitlines() if line.strip() and not line.startswith("--")]
    return [" ".join(part.split()) for part in "\n".join(lines).split(";") if part.strip()]


def compile_all() -> dict[str, Any]:
    """Return what `compiled.json` holds: per dialect the statements and the migration steps."""
    book: dict[str, Any] = {}
    for name, (make_dialect, insert) in _DIALECTS.items():
        dialect = make_dialect()
        rendered: dict[str, Any] = {
            key: _compile(statement, dialect) for key, statement in statements(insert).items()
        }
        for key, statement in _POSTGRES_ONLY.items():
            rendered[key] = _compile(statement, dialect) if name == "postgresql" else None
        book[name] = {"statements": rendered, "migrations": _render_migrations(name)}
    return book


if __name__ == "__main__":
    COMPILED.write_text(json.dumps(compile_all(), indent=1) + "\n", encoding="utf-8")
