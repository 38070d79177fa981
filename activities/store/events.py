"""The one writer of a process's events: pieces are merged and committed together."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence

from zidane_core.errors import StoreError
from zidane_core.events import LIVE_EVENTS, RunEvent

FLUSH_INTERVAL_S = 0.2
MAX_BACKOFF_S = 5.0
MAX_PENDING_BYTES = 8 * 1024 * 1024
"""What waits at most while the store is out of reach; live pieces are dropped first."""
_PIECE_OVERHEAD_BYTES = 512
_log = logging.getLogger(__name__)


class _Piece:
    """A pending event, with the deltas that were merged into it."""

    __slots__ = ("_deltas", "bytes", "event")

    def __init__(self, event: RunEvent) -> None:
        self.event = event
        self._deltas: list[str] = []
        self.bytes = _PIECE_OVERHEAD_BYTES + len(str(event.fields))

    @property
    def is_live(self) -> bool:
        return self.event.name in LIVE_EVENTS

    def merge(self, event: RunEvent) -> int | None:
        """Take a later piece of the same stream; return its size, or None when it does not fit."""
        delta = event.fields.get("delta")
        if event.name != self.event.name or not isinstance(delta, str) or len(event.fields) != 1:
            return None
        self._deltas.append(delta)
        self.bytes += len(delta)
        return len(delta)

    def whole(self) -> RunEvent:
        if not self._deltas:
            return self.event
        delta = str(self.event.fields.get("delta", "")) + "".join(self._deltas)
        return self.event.model_copy(update={"fields": {"delta": delta}})


class EventWriter:
    """Collects the events of all streams of a process and commits them every 200 ms.

    Consecutive pieces of one turn's text (or thinking) become one row per commit, so that the
    cost does not grow with the size of the pieces. While the store is out of reach events wait,
    up to 8 MiB, then pieces are dropped: the committed turn has the text anyway.

    Implements: DUR-08.
    """

    def __init__(self, write: Callable[[Sequence[RunEvent]], Awaitable[None]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = asyncio.Lock()
        self._pending: list[_Piece] = []
        self._open: dict[tuple[str, int], _Piece] = {}
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._flushes: set[asyncio.Task[None]] = set()
        self.dropped = 0
        """Events that were given up during an outage."""

    def emit(self, event: RunEvent) -> None:
        """Take an event; cheap, never raises, may be called from any thread."""
        if threading.get_ident() == self._thread:
            self._add(event)
        else:
            # A closed loop means a worker that is gone: nobody would write the event.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._add, event)

    def has_live(self, turn_id: str) -> bool:
        """Say whether pieces of a turn are waiting."""
        return any(piece.is_live and piece.event.turn_id == turn_id for piece in self._pending)

    async def flush(self) -> None:
        """Commit what is pending; a cancelled caller does not stop the commit.

        Raises:
            StoreError: The store is out of reach; the events wait for the next try.
        """
        task = asyncio.create_task(self._flush())
        self._flushes.add(task)
        task.add_done_callback(self._forget)
        await asyncio.shield(task)

    async def drop(self, turn_id: str, call_id: str = "") -> None:
        """Drop the pending live pieces of a turn or call, after a commit that is under way."""
        async with self._lock:
            kept = [piece for piece in self._pending if not _is_of(piece, turn_id, call_id)]
            if len(kept) != len(self._pending):
                self._replace(kept)

    async def close(self) -> None:
        """Commit what is pending if the store allows it, and stop."""
        self._is_closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(StoreError):
            await self.flush()

    def _add(self, event: RunEvent) -> None:
        if event.turn_id is not None:
            key = (event.turn_id, event.attempt)
            last = self._open.get(key)
            merged = last.merge(event) if last is not None else None
            if merged is not None:
                self._bytes += merged
                self._after_add()
                return
            piece = _Piece(event)
            if event.name in ("text", "thinking"):
                self._open[key] = piece
            else:
                self._open.pop(key, None)
        else:
            piece = _Piece(event)
        self._pending.append(piece)
        self._bytes += piece.bytes
        self._after_add()

    def _after_add(self) -> None:
        if self._bytes > MAX_PENDING_BYTES:
            self._shed()
        if self._task is None and not self._is_closed:
            self._task = self._loop.create_task(self._flush_while_pending())

    def _shed(self) -> None:
        kept = [piece for piece in self._pending if not piece.is_live]
        while sum(piece.bytes for piece in kept) > MAX_PENDING_BYTES // 2:
            kept = kept[len(kept) // 2 + 1 :]
        self.dropped += len(self._pending) - len(kept)
        _log.warning("store out of reach: %d events dropped so far", self.dropped)
        self._replace(kept)

    def _replace(self, pending: list[_Piece]) -> None:
        self._pending = pending
        self._open.clear()
        self._bytes = sum(piece.bytes for piece in pending)

    async def _flush_while_pending(self) -> None:
        delay = FLUSH_INTERVAL_S
        try:
            while self._pending:
                await asyncio.sleep(delay)
                try:
                    await self.flush()
                    delay = FLUSH_INTERVAL_S
                except StoreError as error:
                    delay = min(delay * 2, MAX_BACKOFF_S)
                    _log.warning("events wait, next try in %.1f s: %s", delay, error)
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    async def _flush(self) -> None:
        async with self._lock:
            batch = self._pending
            if not batch:
                return
            self._replace([])
            try:
                await self._write([piece.whole() for piece in batch])
            except StoreError as error:
                if error.details.get("retryable") is False:
                    # What the database refuses once it refuses for ever; others must not wait.
                    self.dropped += len(batch)
                    raise
                newer, still_open = self._pending, dict(self._open)
                self._replace(batch + newer)
                self._open.update(still_open)
                raise

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._flushes.discard(task)
        # Reading the exception keeps asyncio quiet when the caller was cancelled.
        if not task.cancelled():
            task.exception()


def _is_of(piece: _Piece, turn_id: str, call_id: str) -> bool:
    event = piece.event
    return (
        piece.is_live
        and event.turn_id == turn_id
        and (event.fields.get("call_id") or "") == call_id
    )
