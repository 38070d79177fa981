"""Scenarios whose only worker is killed in the middle: the same session as inline."""

import asyncio
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.store import Store, open_store
from tests.scenarios.shelf import BOOK, Scenario
from tests.support.players import InlinePlayer, Played, TemporalPlayer
from tests.support.server import queue_of, replay
from zidane_client.embedded import EmbeddedServer
from zidane_core.values import Json

pytestmark = [
    pytest.mark.server,
    pytest.mark.crash,
    pytest.mark.asyncio(loop_scope="session"),
]

NO_MODEL_CALL = {"a_request_that_is_wrong"}
AGAINST_THE_CLOCK = {"too_much_time"}
"""Its budget would run out while the dead worker's heartbeat does."""
SCENES = [BOOK[name] for name in BOOK if name not in NO_MODEL_CALL | AGAINST_THE_CLOCK]


class Worker:
    """A worker process that is killed once, when every player stands at its crash point."""

    def __init__(self, *arguments: str) -> None:
        self._command = (sys.executable, "-m", "tests.support.scene_worker_process", *arguments)
        self._process: Process | None = None
        self._waiting = len(SCENES)
        self._fell = asyncio.Event()

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(*self._command)

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def fall(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            await self.kill()
            await self.start()
            self._fell.set()
        await self._fell.wait()


class DoomedPlayer(TemporalPlayer):
    """A player whose worker dies at the scenario's crash point, or in a model call."""

    def __init__(self, worker: Worker, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._worker = worker
        self._falling: asyncio.Task[None] | None = None

    async def start(self, **fields: Any) -> None:
        await super().start(**fields)
        if self.halts_at is not None and self._falling is None:
            self._falling = asyncio.create_task(self._fall())
        if self.halts_at == 0 and self._falling is not None:
            await self._falling

    async def _fall(self) -> None:
        await self.gates.reached("kill")
        await self._worker.fall()
        self.open("kill")

    async def crash(self, gate: str) -> None:
        if self.halts_at is None:
            await self._worker.fall()

    async def status(self) -> Json:
        while True:
            try:
                return await super().status()
            except RPCError:
                # Nobody answers while the worker is dead; the caller bounds the wait.
                await asyncio.sleep(0)


async def inline(store: Store, scene: Scenario, folder: Path, halts_at: int | None) -> Played:
    player = InlinePlayer(store, folder, scene.script)
    player.halts_at = halts_at
    player.open("kill")
    await scene.play(player)
    return await player.played()


async def test_a_killed_worker_changes_no_session(
    server: EmbeddedServer, client: Client, tmp_path: Path
):
    """DUR-02, CTL-11, K-TEMPORAL-16: all scenes at once, so that one kill serves them.

    A scene without a crash point of its own loses its worker in its second model call, or in
    its first when it makes no other.
    """
    url = f"sqlite:///{tmp_path / 'zidane.db'}"
    store = await open_store(url)
    queue = queue_of("killed")
    worker = Worker(server.address, queue, url)
    await worker.start()

    async def play(scene: Scenario) -> tuple[object, object]:
        folder = tmp_path / scene.name
        halts_at = None
        expected = await inline(store, scene, folder / "plain", None)
        if not scene.crashes:
            halts_at = 1 if expected.roles.count("assistant") > 1 else 0
            expected = await inline(store, scene, folder / "inline", halts_at)
        doomed = DoomedPlayer(worker, client, queue, store, folder / "server", scene.script)
        doomed.halts_at = halts_at
        await scene.play(doomed)
        await replay(*[await handle.fetch_history() for handle in doomed.handles])
        return await doomed.played(), expected

    try:
        pairs = await asyncio.gather(*map(play, SCENES))
    finally:
        await worker.kill()
    assert len(pairs) >= 25
    for doomed, expected in pairs:
        assert doomed == expected
    await store.close()
