"""What is read of a store; nothing here writes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

from pydantic import JsonValue

from activities.store import call_work, event_work, run_work
from activities.store.cache import PathView, SessionCache
from activities.store.rows import read_json, read_run, read_turn, turn_bytes
from activities.store.turn_work import StoredTurn
from activities.store.work import Driver, RawSql, Rows, Unit
from zidane_core.errors import StoreError
from zidane_core.events import RunEvent
from zidane_core.session import RunRecord, Turn
from zidane_core.usage import TurnUsage
from zidane_core.values import Json

T = TypeVar("T")
_MANIFESTS_KEPT = 32
_ROWS_DECODED_IN_LOOP = 200
"""A longer path is decoded in a thread, so that heartbeats go on meanwhile."""


class StoreReader:
    """The reading half of `Store`."""

    def __init__(self, driver: Driver, cache: SessionCache) -> None:
        self._driver = driver
        self._cache = cache
        self._manifests: OrderedDict[str, Json] = OrderedDict()

    @property
    def url_shown(self) -> str:
        """The database's URL without its password."""
        return self._driver.url_shown

    async def check(self) -> None:
        """Reach the database and read its schema's version."""
        await self._read(_ping())

    async def session_head(self, session_id: str) -> str | None:
        """Return the session's last committed turn; None when it has none or does not exist."""
        rows = await self._fetch("session_head", id=session_id)
        return rows[0][0] if rows else None

    async def session_exists(self, session_id: str) -> bool:
        """Say whether a run was ever started on the session."""
        return bool(await self._fetch("session_head", id=session_id))

    async def run(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        rows = await self._fetch("run", run_id=run_id)
        return read_run(rows[0]) if rows else None

    async def latest_run(self, session_id: str) -> RunRecord | None:
        """Return the run of a session that was started last, or None."""
        rows = await self._fetch("latest_run", session_id=session_id)
        return read_run(rows[0]) if rows else None

    async def list_runs(
        self, *, limit: int = 50, status: str | None = None
    ) -> tuple[RunRecord, ...]:
        """Return runs, newest first; of one status, or of all when it is None."""
        if status is None:
            rows = await self._fetch("list_runs", limit=limit)
        else:
            rows = await self._fetch("list_runs_by_status", limit=limit, status=status)
        return tuple(read_run(row) for row in rows)

    async def match_ids(self, prefix: str) -> tuple[RunRecord, ...]:
        """Return the runs whose run or session id begins with `prefix`, newest first.

        One per session, the latest. When an id equals the prefix, only what has that id.
        """
        return await self._read(run_work.match_runs(prefix))

    async def path(self, session_id: str, head: str | None) -> Sequence[Turn]:
        """Return the turns from the root to `head`; only those not yet in memory are read.

        The result is an immutable view: it costs nothing, however long the session.

        Raises:
            StoreError: A turn is missing, so that the session would read shorter than it is.
        """
        if head is None:
            return PathView([], 0)
        known = self._cache.path(session_id, head)
        if known is not None:
            return known
        end_id, floor = self._cache.end(session_id) or (None, -1)
        rows = await self._fetch("path_up", head=head, floor=floor)
        if end_id is not None and (not rows or rows[0][2] != end_id):
            end_id, floor = None, -1
            rows = await self._fetch("path_up", head=head, floor=floor)
        if len(rows) > _ROWS_DECODED_IN_LOOP:
            delta = await asyncio.to_thread(_checked_path, rows, head, end_id, floor)
        else:
            delta = _checked_path(rows, head, end_id, floor)
        self._cache.add(session_id, delta)
        view = self._cache.path(session_id, head)
        # Another task may have moved the cache to another branch meanwhile.
        return view if view is not None else await self._whole_path(head)

    async def _whole_path(self, head: str) -> Sequence[Turn]:
        rows = await self._fetch("path_up", head=head, floor=-1)
        turns = [entry.turn for entry in _checked_path(rows, head, None, -1)]
        return PathView(turns, len(turns))

    async def turn(self, turn_id: str) -> Turn | None:
        """Return a turn, aborted ones too, or None."""
        rows = await self._fetch("turn", id=turn_id)
        return read_turn(rows[0]) if rows else None

    async def turns_of_run(self, run_id: str) -> tuple[Turn, ...]:
        """Return all turns that a run stored, by place; aborted attempts precede their turn."""
        return run_work.read_turns_of_run(await self._fetch("turns_of_run", run_id=run_id))

    async def usage_of_run(self, run_id: str) -> tuple[TurnUsage, ...]:
        """Return the usage of the turns on a run's path in order; contents are not read."""
        return await self._read(run_work.usage_of_run(run_id))

    async def tool_state(self, scope: str) -> dict[str, JsonValue]:
        """Return a scope's committed tool state; a session is the scope of its calls."""
        return await self._read(call_work.tool_state(scope))

    async def manifest(self, manifest_hash: str) -> Json:
        """Return a manifest's body; callers share it and must not change it."""
        known = self._manifests.get(manifest_hash)
        if known is None:
            rows = await self._fetch("manifest", hash=manifest_hash)
            if not rows:
                raise StoreError(
                    f"Manifest {manifest_hash!r} is not in the store. Check that ZIDANE_STORE is "
                    "the database that the run was started with.",
                    retryable=False,
                )
            known = read_json(rows[0][0], what=f"Manifest {manifest_hash!r}")
            self._manifests[manifest_hash] = known
            if len(self._manifests) > _MANIFESTS_KEPT:
                self._manifests.popitem(last=False)
        return known

    async def blob(self, sha256: str) -> bytes | None:
        """Return the bytes of a hash, or None."""
        rows = await self._fetch("blob", sha256=sha256)
        return bytes(rows[0][0]) if rows else None

    async def events_after(
        self, session_id: str, seq: int, *, limit: int = 1000
    ) -> tuple[RunEvent, ...]:
        """Return a session's events after a cursor in ascending order; 0 starts at the first."""
        return await self._read(event_work.events_after(session_id, seq, limit))

    async def last_event_seq(self, session_id: str) -> int:
        """Return the number of the session's last event; 0 when there is none."""
        return await self._read(event_work.last_event(session_id))

    async def wait_events(self, session_id: str, seq: int, timeout_s: float) -> bool:
        """Wait until the session has an event after `seq`; False when time runs out first."""
        deadline = time.monotonic() + timeout_s
        async with self._driver.watch(session_id) as watch:
            while await self.last_event_seq(session_id) <= seq:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                await watch.changed(left)
        return True

    async def _read(self, unit: Unit[T]) -> T:
        return await self._driver.run(unit, write=False)

    async def _fetch(self, statement: str, **params: JsonValue) -> Rows:
        return await self._read(run_work.fetch(statement, params))


def _ping() -> Unit[None]:
    yield RawSql("SELECT version_num FROM zidane_schema")


def _checked_path(
    rows: Rows, head: str, parent_id: str | None, depth: int
) -> tuple[StoredTurn, ...]:
    """Read a path's rows and check that each follows the one before it, up to `head`."""
    stored: list[StoredTurn] = []
    for row in rows:
        depth += 1
        if row[2] != parent_id or row[3] != depth:
            raise _missing(row[2] or row[0], head)
        turn = read_turn(row)
        stored.append(StoredTurn(turn, depth, turn_bytes(row)))
        parent_id = turn.id
    if parent_id != head:
        raise _missing(head, head)
    return tuple(stored)


def _missing(turn_id: str, head: str) -> StoreError:
    return StoreError(
        f"Turn {turn_id!r} is missing from the store: the session of head {head!r} is damaged. "
        "Restore the database from a backup, or fork from an earlier turn.",
        turn_id=turn_id,
        retryable=False,
    )
