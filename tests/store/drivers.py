"""Drivers that watch or fail, and a way to change a database behind the store's back."""

from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from activities.store.opening import open_driver
from activities.store.work import Ask, Driver, RawSql, Rows, Unit, Watch
from zidane_core.errors import StoreError

T = TypeVar("T")


class CountingDriver:
    """Passes everything on and counts the rows of each statement."""

    def __init__(self, inner: Driver) -> None:
        self._inner = inner
        self.url_shown = inner.url_shown
        self.book = inner.book
        self.has_version_table = inner.has_version_table
        self.seen: list[tuple[str, int]] = []
        self.transactions = 0
        self.is_out_of_reach = False

    def rows_of(self, statement: str) -> list[int]:
        return [rows for name, rows in self.seen if name == statement]

    async def run(self, unit: Unit[T], *, write: bool) -> T:
        if self.is_out_of_reach:
            raise StoreError("out of reach", retryable=True)
        self.transactions += 1
        return await self._inner.run(self._counted(unit), write=write)

    def _counted(self, unit: Unit[T]) -> Unit[T]:
        rows: Rows = ()
        try:
            ask = next(unit)
            while True:
                rows = yield ask
                if isinstance(ask, Ask):
                    self.seen.append((ask.name, len(ask.many or rows)))
                ask = unit.send(rows)
        except StopIteration as stop:
            return stop.value

    def watch(self, session_id: str) -> AbstractAsyncContextManager[Watch]:
        return self._inner.watch(session_id)

    async def close(self) -> None:
        await self._inner.close()


async def run_sql(url: str, *statements: str) -> list[Rows]:
    """Run SQL on a database without the store."""

    def unit() -> Unit[list[Rows]]:
        answers: list[Rows] = []
        for sql in statements:
            answers.append((yield RawSql(sql)))
        return answers

    driver = await open_driver(url)
    try:
        return await driver.run(unit(), write=True)
    finally:
        await driver.close()
