"""Heartbeats for as long as an activity works, whatever it waits for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio import activity

BEAT_S = 1.0
"""Cancellation reaches an activity only in the answer to a beat."""


@asynccontextmanager
async def heartbeating() -> AsyncGenerator[None]:
    """Beat every second, the first time after a second: most activities are done before.

    Implements: K-TEMPORAL-07, K-TEMPORAL-14.
    """
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()


async def _beat() -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        activity.heartbeat()
