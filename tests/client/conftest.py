"""A client with a store and a queue of its own, and workers that come and go."""

import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.store import Store, open_store
from activities.toolbox import basic_tools
from activities.toolbox.human import ask_user
from worker import ZidanePlugin
from zidane_client import RunHandle, ZidaneClient
from zidane_client.embedded import EmbeddedServer
from zidane_core import Agent


@dataclass
class Place:
    """Where a test runs agents."""

    folder: Path
    temporal: Client
    store: Store
    client: ZidaneClient
    queue: str

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        """A worker in this process, with an agent "a"."""
        agent = Agent("a", tools=[*basic_tools, ask_user])
        plugin = ZidanePlugin([agent], store=self.store)
        return Worker(self.temporal, task_queue=self.queue, plugins=[plugin])

    def script(self, text: str) -> str:
        """A model that plays a script."""
        file = self.folder / f"{uuid.uuid4()}.yaml"
        file.write_text(text)
        return f"scripted:{file}"

    async def start(
        self, script: str, prompt: str = "go", *, session_id: str | None = None
    ) -> RunHandle:
        """Start a run of "a" on a script."""
        return await self.client.start(
            "a",
            prompt,
            model=self.script(script),
            workspace=self.folder,
            session_id=session_id,
        )


@pytest.fixture
async def place(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Place]:
    store = await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")
    temporal = await Client.connect(server.address)
    queue = f"client-{uuid.uuid4()}"
    client = ZidaneClient(temporal, store=store, task_queue=queue)
    yield Place(tmp_path, temporal, store, client, queue)
    await client.close()
    await store.close()
