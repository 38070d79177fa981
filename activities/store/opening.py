"""Opening a store: which database a URL names, and bringing its schema up to date."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from activities.store.postgres import PostgresDriver, without_password
from activities.store.sessions import Store
from activities.store.sqlite import SqliteDriver
from activities.store.work import Ask, Driver, Migration, RawSql, Unit
from zidane_core.errors import StoreError

_MIGRATION_LOCK = 0x7A6964616E65


async def open_store(url: str, *, home: Path | None = None) -> Store:
    """Open the store of a URL, make it if it is new, and migrate it.

    Args:
        url: `sqlite:////absolute/file.db`, `sqlite:///relative.db`, `sqlite://` (in memory, for
            tests) or `postgresql://user:password@host/database`. A driver in the scheme, as in
            `postgresql+asyncpg`, is ignored.
        home: Where relative SQLite paths start; None is the working directory. Made if absent;
            its mode becomes 0700 when the database lies right in it.

    Raises:
        StoreError: Not a URL of ours, out of reach (`details["retryable"]`), damaged, or of a
            newer schema.

    Implements: SESS-15.
    """
    driver = await open_driver(url, home)
    try:
        await migrate(driver)
    except BaseException:
        await driver.close()
        raise
    return Store(driver)


async def open_driver(url: str, home: Path | None = None) -> Driver:
    """Connect to the database of a URL; its schema is not looked at. Errors as `open_store`."""
    parts = urlsplit(url)
    scheme = parts.scheme.partition("+")[0]
    if scheme == "sqlite" and not parts.netloc:
        return await SqliteDriver.open(_sqlite_path(parts.path, home))
    if scheme in ("postgresql", "postgres") and parts.scheme:
        return await PostgresDriver.open("postgresql" + url[len(parts.scheme) :])
    raise StoreError(
        f"{without_password(url)!r} is no store URL. Use sqlite:////absolute/file.db or "
        "postgresql://user:password@host/database.",
        retryable=False,
    )


def _sqlite_path(path: str, home: Path | None) -> Path | None:
    name = unquote(path).removeprefix("/")
    if name in ("", ":memory:"):
        return None
    base = (home or Path()).absolute()
    file = base / name
    if home is not None and file.parent == base and base.exists():
        base.chmod(0o700)
    return file


async def migrate(driver: Driver) -> None:
    """Take the steps that a database has not taken yet, all or none.

    Processes that open a new database at once wait for the first.

    Raises:
        StoreError: The database has taken a step that this code does not know.
    """
    if await driver.run(_missing_steps(driver), write=False):
        await driver.run(_take_steps(driver), write=True)


def _missing_steps(driver: Driver) -> Unit[tuple[Migration, ...]]:
    steps = driver.book.migrations
    if not (yield RawSql(driver.has_version_table)):
        return steps
    rows = yield RawSql("SELECT version_num FROM zidane_schema")
    current = rows[0][0] if rows else None
    known = [step.revision for step in steps]
    if current not in known:
        raise StoreError(
            f"The session store {driver.url_shown} has schema {current!r}; this version of zidane "
            f"knows up to {known[-1]!r}. Upgrade zidane here (pip install -U zidane), or use "
            "another store.",
            retryable=False,
            schema=current,
        )
    return steps[known.index(current) + 1 :]


def _take_steps(driver: Driver) -> Unit[None]:
    yield Ask("lock_events", {"lock": _MIGRATION_LOCK})
    for step in (yield from _missing_steps(driver)):
        for sql in step.sql:
            yield RawSql(sql)
