"""What a worker keeps in memory, and how long its set-up takes, changes no run."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.store import Store
from tests.support.inline_runs import says
from tests.support.server import queue_of, replay, scene_worker
from worker import ZidanePlugin
from workflows.placement import HEARTBEAT_TIMEOUT
from zidane_core import Agent

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

CALLS = "{name: echo, input: {text: x}}, {name: glance, input: {text: y}}"


async def test_a_history_of_a_warm_worker_goes_on_and_replays_under_a_cold_one(
    client: Client, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-02: run B finds agent, manifest and views in memory, its next worker nothing."""
    queue = queue_of("warm")
    (tmp_path / "ws").mkdir()
    script = tmp_path / "script.yaml"
    script.write_text(f"turns: [{{tool_calls: [{CALLS}]}}, {{text: done}}]")

    async def start(name: str, model: str) -> Any:
        return await client.start_workflow(
            "AgentRun",
            {"agent": "scenes", "prompt": "go", "model": model, "workspace": str(tmp_path / "ws")},
            id=f"zidane-{queue}-{name}",
            task_queue=queue,
        )

    async with scene_worker(client, queue, scene_store):
        a = await start("a", f"scripted:{script}")
        assert (await a.result())["text"] == "done"
        b = await start("b", f"halting:1,scripted,{script}")
        while (await b.query("status"))["turn"] < 2:
            continue
    (tmp_path / "gates").mkdir(exist_ok=True)
    (tmp_path / "gates" / "kill.open").touch()
    async with scene_worker(client, queue, scene_store):
        assert (await b.result())["text"] == "done"
    await replay(await a.fetch_history(), await b.fetch_history())


class SlowModel:
    """A provider whose first token comes late."""

    name = "slow"
    capabilities = ProviderCapabilities()
    meta = ProviderMeta()

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.requests = 0

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        self.requests += 1
        await asyncio.sleep(self._seconds)
        return says("late")

    async def close(self) -> None:
        return None


async def test_heartbeats_go_on_through_a_set_up_longer_than_the_heartbeat_timeout(
    client: Client, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-07: a plain hook blocks its thread, then the model is silent; one attempt each."""
    half = HEARTBEAT_TIMEOUT.total_seconds() / 2 + 1.5
    model = SlowModel(half)
    attempts: list[int] = []

    def slow_hook(payload: Any) -> None:
        attempts.append(payload.attempt)
        time.sleep(half)

    agent = Agent("slow", model="slow:m", hooks={"turn:before": slow_hook})
    queue = queue_of("slow")
    plugin = ZidanePlugin([agent], store=scene_store, providers={"slow": model})
    async with Worker(client, task_queue=queue, plugins=[plugin]):
        result: Any = await client.execute_workflow(
            "AgentRun",
            {"agent": "slow", "prompt": "go", "workspace": str(tmp_path)},
            id=f"zidane-{queue}",
            task_queue=queue,
        )
    assert result["text"] == "late"
    assert (model.requests, attempts) == (1, [1])
