"""PostgreSQL: a pool of asyncpg connections, and one more that listens for watchers."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from activities.store.work import CHANNEL, Ask, Book, RawSql, Rows, Unit, load_book
from zidane_core.errors import StoreError

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")
POOL_SIZE = 10
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 60.0
RECHECK_S = 2.0
"""A watcher looks this often even without a notification, which a broken connection may lose."""


_SHOWN = ("host=", "port=", "user=", "dbname=")


def without_password(url: str) -> str:
    """Return a database URL without its password and without most of its query."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(part for part in parts.query.split("&") if part.startswith(_SHOWN))
    return urlunsplit((parts.scheme, user.partition(":")[0] + at + host, parts.path, query, ""))


async def _no_reset(_connection: Any) -> None:
    """Save a round trip per transaction: ours leave nothing behind in a connection."""


def _rows(records: Any) -> Rows:
    # A Record behaves as a tuple here (index, unpack, iterate); its stubs do not say so.
    return records


class PostgresDriver:
    """A PostgreSQL database; use `PostgresDriver.open`."""

    # Read as a table: to_regclass may answer from the connection's cache, as of before the lock.
    has_version_table = (
        "SELECT 1 FROM pg_catalog.pg_tables "
        "WHERE tablename = 'zidane_schema' AND schemaname = ANY (current_schemas(false))"
    )

    def __init__(self, url: str) -> None:
        self.url_shown = without_password(url)
        self.book: Book = load_book("postgresql")
        self._url = url
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._listener: asyncpg.Connection[asyncpg.Record] | None = None
        self._listening = asyncio.Lock()
        self._watchers: dict[str, set[asyncio.Event]] = {}

    @classmethod
    async def open(cls, url: str) -> "PostgresDriver":
        """Connect.

        Raises:
            StoreError: No server answers, it refuses us, or the `postgres` extra is missing.
        """
        try:
            # Only who uses PostgreSQL has asyncpg installed and pays for it.
            import asyncpg
        except ImportError as error:
            raise StoreError(
                f"The session store {without_password(url)} needs the driver asyncpg: install "
                "zidane[postgres].",
                retryable=False,
            ) from error
        driver = cls(url)
        async with driver._failures():
            driver._pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=POOL_SIZE,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                reset=_no_reset,
            )
        return driver

    async def run(self, unit: Unit[T], *, write: bool) -> T:
        """Run a unit in one transaction, see `Driver`."""
        if self._pool is None:
            raise StoreError(f"The session store {self.url_shown} is closed.", retryable=True)
        async with (
            self._failures(),
            self._pool.acquire(timeout=CONNECT_TIMEOUT_S) as connection,
            connection.transaction(readonly=not write),
        ):
            return await self._drive(connection, unit)
        raise AssertionError("unreachable: _failures never swallows")

    @contextlib.asynccontextmanager
    async def watch(self, session_id: str) -> AsyncGenerator["PostgresWatch"]:
        """Watch a session by LISTEN."""
        event = asyncio.Event()
        self._watchers.setdefault(session_id, set()).add(event)
        try:
            await self._listen()
            yield PostgresWatch(event)
        finally:
            rest = self._watchers[session_id]
            rest.discard(event)
            if not rest:
                del self._watchers[session_id]

    async def close(self) -> None:
        """Close the pool and the listener; calls that run are waited for, at most 10 s."""
        pool, self._pool = self._pool, None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.terminate()
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), CONNECT_TIMEOUT_S)
            except (TimeoutError, OSError):
                pool.terminate()

    async def _drive(self, connection: "PoolConnectionProxy[asyncpg.Record]", unit: Unit[T]) -> T:
        try:
            ask = next(unit)
            while True:
                rows = await self._execute(connection, ask)
                ask = unit.send(rows)
        except StopIteration as stop:
            return stop.value

    async def _execute(
        self, connection: "PoolConnectionProxy[asyncpg.Record]", ask: Ask | RawSql
    ) -> Rows:
        if isinstance(ask, RawSql):
            return _rows(await connection.fetch(ask.sql))
        statement = self.book.statements[ask.name]
        if statement is None:
            return ()
        if ask.many is not None:
            await connection.executemany(
                statement.sql, [statement.args(entry) for entry in ask.many]
            )
            return ()
        return _rows(await connection.fetch(statement.sql, *statement.args(ask.params)))

    async def _listen(self) -> None:
        import asyncpg

        async with self._listening:
            if self._listener is not None and not self._listener.is_closed():
                return
            async with self._failures():
                listener = await asyncpg.connect(self._url, timeout=CONNECT_TIMEOUT_S)
                await listener.add_listener(CHANNEL, self._on_notification)
            listener.add_termination_listener(self._on_termination)
            self._listener = listener

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        for event in self._watchers.get(payload, ()):
            event.set()

    def _on_termination(self, _connection: Any) -> None:
        for events in self._watchers.values():
            for event in events:
                event.set()

    @contextlib.asynccontextmanager
    async def _failures(self) -> AsyncGenerator[None]:
        import asyncpg

        try:
            yield
        except (asyncpg.DataError, asyncpg.SyntaxOrAccessError) as error:
            advice = "Check the user's rights, and that zidane set up this database."
            raise self._error(error, advice, False) from error
        except asyncpg.DataCorruptedError as error:
            raise self._error(error, "Restore the database from a backup.", False) from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            advice = "Check that the server runs and that ZIDANE_STORE names it correctly."
            raise self._error(error, advice, True) from error

    def _error(self, error: Exception, advice: str, retryable: bool) -> StoreError:
        reason = str(error) or type(error).__name__
        return StoreError(
            f"The session store {self.url_shown} does not work: {reason}. {advice}",
            retryable=retryable,
            url=self.url_shown,
        )


class PostgresWatch:
    """Wakes on a notification for its session."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    async def changed(self, timeout_s: float) -> bool:
        """Return True when the session was written to, False after the timeout or 2 s."""
        try:
            await asyncio.wait_for(self._event.wait(), min(timeout_s, RECHECK_S))
        except TimeoutError:
            return False
        self._event.clear()
        return True
