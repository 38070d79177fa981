"""A Temporal server for the whole test run, and workers on it."""

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, Worker

from activities.store import Store
from tests.support.scene_agent import scene_agent, scene_providers
from worker import ZidanePlugin

XDIST_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")


def queue_of(purpose: str) -> str:
    """A task queue that no other test process polls."""
    return f"{purpose}-{XDIST_WORKER}-{os.getpid()}"


def shared_home(base_temp: Path) -> Path:
    """The home that all processes of one test run share, and with it the server."""
    run = base_temp if XDIST_WORKER == "main" else base_temp.parent
    return run / "server"


@asynccontextmanager
async def scene_worker(
    client: Client, queue: str, store: Store | str, *, max_cached_workflows: int = 1000
) -> AsyncGenerator[Worker]:
    """A worker in this process that plays scenarios."""
    plugin = ZidanePlugin([scene_agent()], store=store, providers=scene_providers())
    async with Worker(
        client, task_queue=queue, plugins=[plugin], max_cached_workflows=max_cached_workflows
    ) as worker:
        yield worker


async def replay(*histories: WorkflowHistory) -> None:
    """Replay histories against today's code.

    Raises:
        Exception: The first history that does not fit.
    """

    async def each() -> AsyncIterator[WorkflowHistory]:
        for history in histories:
            yield history

    await Replayer(workflows=[], plugins=[ZidanePlugin()]).replay_workflows(each())
