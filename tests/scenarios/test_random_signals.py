"""Signals at random moments while tools complete, on a worker that replays every task."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from activities.store import Store
from tests.scenarios.book import call
from tests.support.histories import chain, failed_tasks
from tests.support.players import TemporalPlayer
from tests.support.server import queue_of, replay, scene_worker
from zidane_core.control import ControlName

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

RUNS, AT_ONCE = 50, 10
RESUME_S = 1.0
"""Between two resumes: one that comes before the pause took hold means nothing."""
# No quick tools: without a cache the SDK gives up local activities between tasks and says so.
SCRIPT = [
    {"tool_calls": [call("echo", f"a{n}", text="x"), call("echo", f"b{n}", text="y")]}
    for n in range(1)
]
NAMES: list[ControlName] = ["steer", "steer", "pause", "resume", "resume", "follow_up"]


async def play(player: TemporalPlayer, dice: random.Random) -> list[str]:
    """Start a run, send it what the dice say, and see it to its end; the ids that were taken."""
    await player.start(prompt="go")
    accepted: list[str] = []
    ended = asyncio.create_task(player.result())
    try:
        for number in range(dice.randrange(1, 7)):
            name = dice.choice(NAMES)
            message: Any = {"prompt": f"m{number}", "id": f"m{number}"}
            await player.send(name, message if name in ("steer", "follow_up") else None)
            if name in ("steer", "follow_up"):
                accepted.append(f"m{number}")
            for _ in range(dice.randrange(2)):
                await player.status()
        while not ended.done():
            await player.send("resume")
            await asyncio.wait({ended}, timeout=RESUME_S)
    except RPCError as error:
        # The run was over before the last signal: the sender was told so.
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    await ended
    return accepted


async def test_random_signals_never_make_a_history_that_does_not_replay(
    client: Client, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-10, K-STEER-01: seeded; every task of every run replays from its start."""
    queue = queue_of("uncached")
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> list[WorkflowHistory]:
        player = TemporalPlayer(client, queue, scene_store, tmp_path / f"{seed}", SCRIPT)
        async with limit:
            accepted = await play(player, random.Random(seed))
        (result,) = player.results
        unconsumed: Any = result["unconsumed"]
        played = await player.played()
        taken = [turn["message_id"] for turn in played.turns if "message_id" in turn]
        assert sorted([*taken, *(m["id"] for m in unconsumed)]) == sorted(accepted)
        histories = await chain(client, player.handle)
        assert [why for history in histories for why in failed_tasks(history)] == []
        return histories

    async with scene_worker(client, queue, scene_store, max_cached_workflows=0):
        chains = await asyncio.gather(*map(one, range(RUNS)))
    await replay(*(history for histories in chains for history in histories))
