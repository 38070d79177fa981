"""The worker that `run` and `watch` bring along in embedded mode while nobody else polls."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.worker import Worker

from worker import ZidanePlugin, task_queue
from zidane_client.cli.agents import load_agents
from zidane_client.cli.running import Server
from zidane_client.client import ZidaneClient

_CHECK_S = 2.0
_GRACE = timedelta(seconds=1)
"""A command ends soon; what then still runs is tried again by the next worker."""


@asynccontextmanager
async def own_worker(
    client: ZidaneClient, found: Server, places: Sequence[str]
) -> AsyncGenerator[None]:
    """Keep the task queue served meanwhile; does nothing with a server that is not ours.

    Args:
        client: Its store is shared with the worker.
        found: The server.
        places: Agents as `module:object`, besides `basic`.

    Raises:
        UsageError: A place holds no agent.
    """
    agents = load_agents(places)
    if found.embedded is None:
        yield
        return
    store = await client.store()
    leave = asyncio.Event()

    async def serve() -> None:
        # A worker of another command may end before this command does, so keep looking.
        while await found.has_worker():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(leave.wait(), _CHECK_S)
                return
        plugin = ZidanePlugin(agents, store=store)
        async with Worker(
            found.temporal,
            task_queue=task_queue(),
            plugins=[plugin],
            graceful_shutdown_timeout=_GRACE,
        ):
            await leave.wait()

    serving = asyncio.create_task(serve())
    try:
        yield
    finally:
        leave.set()
        await serving
