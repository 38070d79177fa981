"""A worker in a process of its own, to be killed: `python -m ... ADDRESS QUEUE STORE_URL`."""

import asyncio
import os
import sys

from temporalio.client import Client

from tests.support.scene_agent import scene_agent, scene_providers
from worker import run_worker


async def main(address: str, queue: str, store: str) -> None:
    await run_worker(
        [scene_agent()],
        client=await Client.connect(address),
        queue=queue,
        store=store,
        providers=scene_providers(),
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    sys.stdout.flush()
    os._exit(0)
