"""SQLite: one connection in one thread, a hop to it per unit of work."""

import asyncio
import contextlib
import functools
import os
import re
import sqlite3
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeVar

from activities.store.thread import WorkThread
from activities.store.work import Ask, Book, RawSql, Rows, Unit, load_book
from zidane_core.errors import StoreError

T = TypeVar("T")
BUSY_TIMEOUT_S = 10.0
POLL_S = 0.05
"""How often a watcher looks whether another process has written."""
QUICK_CHECK_MAX_BYTES = 32 * 1024 * 1024
"""Largest database that is checked when it was not closed cleanly; about 50 ms."""
_DAMAGE = re.compile(r"malformed|not a database|corrupt", re.IGNORECASE)


class SqliteDriver:
    """A database file, shared with other processes, or `:memory:`.

    Use `SqliteDriver.open`. The file is made with mode 0600, a new folder with 0700.
    """

    has_version_table = (
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'zidane_schema'"
    )

    def __init__(self, path: Path | None, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self.url_shown = f"sqlite:///{path}" if path is not None else "sqlite://"
        self.book: Book = load_book("sqlite")
        self._thread = WorkThread("zidane-store")
        self._connection: sqlite3.Connection | None = None
        self._writes = 0
        self._closed = False

    @classmethod
    async def open(
        cls, path: Path | None, *, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> "SqliteDriver":
        """Open or make the file; a write waits `busy_timeout_s` for other processes.

        Raises:
            StoreError: It cannot be opened, or is damaged.
        """
        driver = cls(path, busy_timeout_s=busy_timeout_s)
        try:
            await driver._in_thread(driver._connect)
        except BaseException:
            driver._thread.stop()
            raise
        return driver

    async def run(self, unit: Unit[T], *, write: bool) -> T:
        """Run a unit in one transaction, see `Driver`."""
        return await self._in_thread(self._transact, unit, write)

    @contextlib.asynccontextmanager
    async def watch(self, session_id: str) -> AsyncGenerator["SqliteWatch"]:
        """Watch for writes of any process; sessions are not told apart."""
        yield SqliteWatch(self, await self.version())

    async def version(self) -> tuple[int, int]:
        """Return a pair that differs from an earlier one when something was written."""
        return await self._in_thread(self._version)

    async def close(self) -> None:
        """Close the file; the last process to do so empties the write-ahead log."""
        if not self._closed:
            self._closed = True
            await self._thread.run(self._disconnect)
            self._thread.stop()

    async def _in_thread(self, work: Any, *args: Any) -> Any:
        try:
            if self._closed:
                raise sqlite3.ProgrammingError("closed")
            return await self._thread.run(functools.partial(work, *args))
        except sqlite3.Error as error:
            raise self._explain(error) from error
        except OSError as error:
            raise StoreError(
                f"Cannot open the session store {self.url_shown}: {error.strerror or error}. "
                "Check the path and its permissions, or set ZIDANE_STORE.",
                retryable=True,
                url=self.url_shown,
            ) from error

    def _explain(self, error: sqlite3.Error) -> StoreError:
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            text, retryable = f"The session store {self.url_shown} is closed.", True
        elif isinstance(error, sqlite3.OperationalError) and not _DAMAGE.search(str(error)):
            advice = (
                "Another process holds it for too long; try again."
                if "locked" in str(error)
                else "Check the disk, the path and its permissions."
            )
            text = f"The session store {self.url_shown} does not work: {error}. {advice}"
            retryable = True
        else:
            text = (
                f"The session store {self.url_shown} is damaged: {error}. Stop all workers and "
                "restore the file from a backup; `sqlite3 FILE .recover` may save a part."
            )
            retryable = False
        return StoreError(text, retryable=retryable, url=self.url_shown)

    # What follows runs in the thread.

    def _connect(self) -> None:
        unclean = self._prepare_file() if self.path is not None else False
        connection = sqlite3.connect(
            str(self.path) if self.path is not None else ":memory:",
            timeout=self._busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            self._configure(connection)
            if unclean:
                self._check(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _prepare_file(self) -> bool:
        """Make the file with its modes; say whether it wants a check."""
        assert self.path is not None
        if not self.path.parent.exists():
            self.path.parent.mkdir(mode=0o700, parents=True)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        if self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)
        log = self.path.with_name(self.path.name + "-wal")
        unclean = log.exists() and log.stat().st_size > 0
        return unclean and self.path.stat().st_size <= QUICK_CHECK_MAX_BYTES

    def _configure(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            # The switch to WAL does not wait for other processes by itself.
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchall()
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA journal_size_limit=67108864")

    def _check(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found[0] != "ok":
            first = str(found[0]).splitlines()[0]
            raise sqlite3.DatabaseError(f"database disk image is malformed, {first}")

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("closed")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _version(self) -> tuple[int, int]:
        row = self._open_connection().execute("PRAGMA data_version").fetchone()
        return int(row[0]), self._writes

    def _transact(self, unit: Unit[T], write: bool) -> T:
        connection = self._open_connection()
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            result = self._drive(connection, unit)
            connection.execute("COMMIT")
        except BaseException:
            # A failed COMMIT may or may not leave the transaction open.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if write:
            self._writes += 1
        return result

    def _drive(self, connection: sqlite3.Connection, unit: Unit[T]) -> T:
        rows: Rows = ()
        try:
            ask = next(unit)
            while True:
                rows = self._execute(connection, ask)
                ask = unit.send(rows)
        except StopIteration as stop:
            return stop.value

    def _execute(self, connection: sqlite3.Connection, ask: Ask | RawSql) -> Rows:
        if isinstance(ask, RawSql):
            return connection.execute(ask.sql).fetchall()
        statement = self.book.statements[ask.name]
        if statement is None:
            return ()
        if ask.many is not None:
            connection.executemany(statement.sql, [statement.args(entry) for entry in ask.many])
            return ()
        return connection.execute(statement.sql, statement.args(ask.params)).fetchall()


class SqliteWatch:
    """Asks the file every 50 ms whether it changed: microseconds, no page is read."""

    def __init__(self, driver: SqliteDriver, version: tuple[int, int]) -> None:
        self._driver = driver
        self._version = version

    async def changed(self, timeout_s: float) -> bool:
        """Return True when any process has written, False after the timeout."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            version = await self._driver.version()
            if version != self._version:
                self._version = version
                return True
            await asyncio.sleep(min(POLL_S, left))
        return False
