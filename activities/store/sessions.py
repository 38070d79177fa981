"""Store: the public face of the session store.

What happens in a transaction is in `*_work.py`, what is only read in `reading.py`.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from activities.store import call_work, event_work, run_work, turn_work
from activities.store.cache import DEFAULT_MAX_BYTES, SessionCache
from activities.store.call_work import CallStart
from activities.store.events import EventWriter
from activities.store.reading import StoreReader
from activities.store.turn_work import PendingTurn, TurnStart
from activities.store.work import Driver, Unit
from zidane_core.content import ContentBlock, ToolResultBlock
from zidane_core.events import RunEvent
from zidane_core.session import RunRecord, Turn
from zidane_core.tool_state import ToolStateOp
from zidane_core.values import Json

T = TypeVar("T")


class Store(StoreReader):
    """The sessions of one database; made by `open_store`.

    Every write may be repeated: ids decide, the first to finish a turn, a call or a run wins, and
    the others are given what it stored. Every method raises StoreError when the database is out
    of reach (`details["retryable"]` is true) or damaged (false).

    Implements: SESS-15, DUR-02.
    """

    def __init__(self, driver: Driver, *, cache_bytes: int = DEFAULT_MAX_BYTES) -> None:
        super().__init__(driver, SessionCache(max_bytes=cache_bytes))
        self.events = EventWriter(self.append_events)
        """Takes live pieces and other events that need not be on disk at once."""

    async def close(self) -> None:
        """Write what is pending and close the database."""
        await self.events.close()
        await self._driver.close()

    # Runs and sessions.

    async def start_run(
        self,
        record: RunRecord,
        *,
        manifest: Json,
        manifest_hash: str,
        turns: Sequence[Turn],
        events: Sequence[RunEvent] = (),
    ) -> None:
        """Write a run, its manifest and first turns, which follow `record.base_head` in order.

        The session is made if it is new; its head moves when there are turns. A run that is
        there already is left as it is.
        """
        stored = await self._write(
            run_work.start_run(
                record,
                manifest=manifest,
                manifest_hash=manifest_hash,
                turns=turns,
                events=events,
            )
        )
        self._cache.add(record.session_id, stored)

    async def finish_run(
        self,
        record: RunRecord,
        *,
        append: Sequence[PendingTurn],
        head: str | None,
        events: Sequence[RunEvent] = (),
    ) -> str | None:
        """Append turns to `head` and write the run as it ended; return the final head.

        Fields that the record does not set keep what `start_run` stored. A run that has ended
        already is left as it is, and its own head returned.
        """
        end, stored = await self._write(
            run_work.finish_run(record, append=append, head=head, events=events)
        )
        self._cache.add(record.session_id, stored)
        return end

    async def set_phase(
        self, run_id: str, *, phase: str, reason: str | None, events: Sequence[RunEvent] = ()
    ) -> None:
        """Note the phase of a run that has not ended."""
        await self._write(run_work.set_phase(run_id, phase=phase, reason=reason, events=events))

    # Turns.

    async def begin_turn(
        self,
        *,
        run_id: str,
        session_id: str,
        turn_id: str,
        attempt: int,
        head: str | None,
        append: Sequence[PendingTurn],
        now: int,
        events: Sequence[RunEvent] = (),
    ) -> TurnStart:
        """Append turns to `head` and write the intent of the model turn that follows them.

        A finished turn is only reported: return its receipt. What earlier attempts had streamed
        becomes an aborted turn each, off the path.

        Implements: DUR-02, CTL-11.
        """
        if self.events.has_live(turn_id):
            await self.events.flush()
        start = await self._write(
            turn_work.begin_turn(
                append,
                run_id=run_id,
                session_id=session_id,
                turn_id=turn_id,
                attempt=attempt,
                head=head,
                now=now,
                events=events,
            )
        )
        self._cache.add(session_id, start.stored)
        return start

    async def commit_turn(
        self,
        turn: Turn,
        *,
        session_id: str,
        run_id: str,
        receipt: Json,
        phase: str,
        events: Sequence[RunEvent] = (),
    ) -> Json:
        """Store a finished model turn, which follows `turn.parent_id`, and end its live pieces.

        Returns:
            The receipt that stands: an earlier one when another attempt finished the turn first,
            whose turn is then the stored one.

        Implements: DUR-02, K-STORE-03.
        """
        await self.events.drop(turn.id)
        standing, stored = await self._write(
            turn_work.commit_turn(
                turn,
                session_id=session_id,
                run_id=run_id,
                receipt=receipt,
                phase=phase,
                events=events,
            )
        )
        if stored is not None:
            self._cache.add(session_id, (stored,))
        return standing

    async def fail_turn(
        self,
        *,
        session_id: str,
        run_id: str,
        turn_id: str,
        attempt: int,
        head: str | None,
        now: int,
        partial: tuple[ContentBlock, ...],
        receipt: Json,
        events: Sequence[RunEvent] = (),
    ) -> None:
        """End a failed attempt: what it had streamed becomes an aborted turn; the turn stays open.

        `attempt` and `head` are those of the TurnStart. Nothing happens when another attempt has
        finished the turn.
        """
        await self.events.drop(turn_id)
        await self._write(
            turn_work.fail_turn(
                session_id=session_id,
                run_id=run_id,
                turn_id=turn_id,
                attempt=attempt,
                head=head,
                now=now,
                partial=partial,
                receipt=receipt,
                events=events,
            )
        )

    # Calls.

    async def begin_call(
        self,
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
        events: Sequence[RunEvent] = (),
    ) -> CallStart:
        """Write a call's intent and return what is known of it; a read-only call writes nothing.

        Implements: DUR-02.
        """
        unit = call_work.begin_call(
            self._cache.turn(session_id, turn_id),
            run_id=run_id,
            session_id=session_id,
            turn_id=turn_id,
            call_id=call_id,
            name=name,
            attempt=attempt,
            repeatable=repeatable,
            read_only=read_only,
            now=now,
            events=events,
        )
        return await self._driver.run(unit, write=not read_only)

    async def finish_call(
        self,
        *,
        run_id: str,
        session_id: str,
        turn_id: str,
        call_id: str,
        name: str,
        attempt: int,
        result: ToolResultBlock,
        receipt: Json,
        ops: Sequence[ToolStateOp] = (),
        interrupted: bool = False,
        now: int,
        events: Sequence[RunEvent] = (),
    ) -> Json:
        """Store a call's one result with its tool-state ops; return the receipt that stands.

        Implements: DUR-02, STATE-05, STATE-08, K-STORE-03.
        """
        await self.events.drop(turn_id, call_id)
        return await self._write(
            call_work.finish_call(
                run_id=run_id,
                session_id=session_id,
                turn_id=turn_id,
                call_id=call_id,
                name=name,
                attempt=attempt,
                result=result,
                receipt=receipt,
                ops=ops,
                interrupted=interrupted,
                now=now,
                events=events,
            )
        )

    # Tool state, manifests, blobs.

    async def commit_state(self, scope: str, ops: Sequence[ToolStateOp], op_id: str) -> None:
        """Apply ops in order; without ops nothing is written (STATE-05, STATE-08)."""
        if ops:
            await self._write(call_work.commit_state(scope, ops, op_id=op_id))

    async def put_blob(self, body: bytes) -> str:
        """Store bytes and return their SHA-256 in hex; the same bytes are stored once."""
        sha256 = hashlib.sha256(body).hexdigest()
        row = {"sha256": sha256, "size": len(body), "body": body}
        await self._write(run_work.fetch("insert_blob", row))
        return sha256

    # Events.

    async def append_events(self, events: Sequence[RunEvent]) -> None:
        """Write events at once; live ones of a turn or call that has ended are dropped."""
        if events:
            await self._write(event_work.write_batch(events))

    async def _write(self, unit: Unit[T]) -> T:
        return await self._driver.run(unit, write=True)
