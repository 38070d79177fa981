"""What units of work and drivers say to each other; no I/O.

A unit of work is a generator: it yields `Ask`s, is sent the rows, and returns its result. A
driver runs it inside one transaction, so each unit is written once for all databases.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Params = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]
DialectName = Literal["sqlite", "postgresql"]
CHANNEL = "zidane_events"
"""Channel of the notifications that tell watchers of a session to look (PostgreSQL)."""


class Ask(NamedTuple):
    """One statement of a unit: by name with its parameters; for `many`, once per entry, no rows."""

    name: str
    params: Params = MappingProxyType({})
    many: Sequence[Params] | None = None


class RawSql(NamedTuple):
    """SQL without parameters that no table gives: migrations and what they look up."""

    sql: str


Unit = Generator["Ask | RawSql", Rows, T]


@dataclass(frozen=True)
class Statement:
    """SQL in a dialect's own form, and the names of its positional parameters in order."""

    sql: str
    params: tuple[str, ...]
    constants: Params = field(default_factory=dict[str, Any])

    def args(self, params: Params) -> tuple[Any, ...]:
        """Return the positional arguments; a parameter that is not given is a KeyError."""
        if self.constants:
            params = {**self.constants, **params}
        return tuple([params[name] for name in self.params])


@dataclass(frozen=True)
class Migration:
    """One step of the schema."""

    revision: str
    sql: tuple[str, ...]


@dataclass(frozen=True)
class Book:
    """A dialect's statements by name (None: not needed there) and its migrations in order."""

    statements: Mapping[str, Statement | None]
    migrations: tuple[Migration, ...]

    @property
    def head(self) -> str:
        """The revision that this code reads and writes."""
        return self.migrations[-1].revision


def load_book(dialect: DialectName) -> Book:
    """Read what `statements.py` compiled; SQLAlchemy and Alembic are not imported."""
    path = Path(__file__).with_name("compiled.json")
    packed = json.loads(path.read_text(encoding="utf-8"))[dialect]
    return Book(
        statements={
            name: None
            if entry is None
            else Statement(entry["sql"], tuple(entry["params"]), entry.get("constants", {}))
            for name, entry in packed["statements"].items()
        },
        migrations=tuple(
            Migration(entry["revision"], tuple(entry["sql"])) for entry in packed["migrations"]
        ),
    )


class Watch(Protocol):
    """Tells when a session may have new events."""

    async def changed(self, timeout_s: float) -> bool:
        """Return True when there is news, False after the timeout or, to look again, earlier."""
        ...


class Driver(Protocol):
    """A database. All failures leave it as StoreError."""

    url_shown: str
    """The URL without its password."""
    book: Book
    has_version_table: str
    """SQL that gives a row when the schema was ever set up."""

    async def run(self, unit: Unit[T], *, write: bool) -> T:
        """Run a unit in one transaction; a unit that raises leaves nothing behind.

        Raises:
            StoreError: The database is out of reach or busy (`details["retryable"]` is true),
                or damaged (false).
        """
        ...

    def watch(self, session_id: str) -> AbstractAsyncContextManager[Watch]:
        """Watch a session for as long as the context is open."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
