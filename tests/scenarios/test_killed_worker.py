"""Scenarios whose only worker is killed in the middle: the same session as inline."""

import asyncio
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from activities.store import open_store
from tests.scenarios.book import BOOK, Scenario
from tests.support.players import InlinePlayer, TemporalPlayer
from tests.support.server import queue_of, replay
from zidane_client.embedded import EmbeddedServer

pytestmark = [
    pytest.mark.server,
    pytest.mark.crash,
    pytest.mark.asyncio(loop_scope="session"),
]

SCENES = [scene for scene in BOOK.values() if scene.crashes]


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
    """A player whose worker dies at the scenario's crash point."""

    def __init__(self, worker: Worker, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._worker = worker

    async def crash(self, gate: str) -> None:
        await self._worker.fall()


async def test_a_killed_worker_changes_no_session(
    server: EmbeddedServer, client: Client, tmp_path: Path
):
    """DUR-02, CTL-11, K-TEMPORAL-16: all scenes at once, so that one kill serves them."""
    url = f"sqlite:///{tmp_path / 'zidane.db'}"
    store = await open_store(url)
    queue = queue_of("killed")
    worker = Worker(server.address, queue, url)
    await worker.start()

    async def play(scene: Scenario) -> tuple[object, object]:
        inline = InlinePlayer(store, tmp_path / scene.name / "inline", scene.script)
        doomed = DoomedPlayer(
            worker, client, queue, store, tmp_path / scene.name / "server", scene.script
        )
        await scene.play(inline)
        await scene.play(doomed)
        await replay(*[await handle.fetch_history() for handle in doomed.handles])
        return await doomed.played(), await inline.played()

    try:
        pairs = await asyncio.gather(*map(play, SCENES))
    finally:
        await worker.kill()
    for doomed, inline in pairs:
        assert doomed == inline
    await store.close()
