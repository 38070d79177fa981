"""What all tests share: one Temporal server per test run, and a safe way out of the process."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings
from temporalio.client import Client

from activities.store import Store, open_store
from tests.support.server import queue_of, scene_worker, shared_home
from zidane_client.embedded import EmbeddedServer, embedded_server

# How long an example takes says more about the machine than about the code.
settings.register_profile("zidane", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zidane")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    """A server shared by every process of the test run; it ends soon after the last one."""
    home = shared_home(tmp_path_factory.getbasetemp())
    async with embedded_server(home, idle_s=2) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(server: EmbeddedServer) -> Client:
    return await Client.connect(server.address)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    """One store for all scenarios of this process: sessions do not touch each other."""
    folder: Path = tmp_path_factory.mktemp("store")
    opened = await open_store(f"sqlite:///{folder / 'zidane.db'}")
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def scene_queue(client: Client, scene_store: Store) -> AsyncIterator[str]:
    """A queue with a worker behind it."""
    queue = queue_of("scenes")
    async with scene_worker(client, queue, scene_store):
        yield queue


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    # temporalio may crash at interpreter exit (temporal-facts 1.6), which would turn the exit
    # code of a passed run into noise. Processes of xdist report before they exit.
    status = getattr(config, "_exit_status", None)
    if "temporalio.bridge.temporal_sdk_bridge" in sys.modules and status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        session.config._exit_status = int(exitstatus)  # pyright: ignore[reportAttributeAccessIssue] -- handed on to pytest_unconfigure
