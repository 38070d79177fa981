"""ZidanePlugin beside a user's own Temporal code, and how `run_worker` starts and ends."""

import asyncio
import socket
import urllib.request
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from tests.support.crash_rig import until
from worker import ZidanePlugin, run_worker
from zidane_client.embedded import EmbeddedServer
from zidane_core import Agent, tool
from zidane_core.errors import InvalidRequestError

pytestmark = pytest.mark.server

SCRIPT = """
turns:
  - tool_calls: [{name: work, input: {}}]
  - text: "worked: {{last_result}}"
"""


class Work:
    """An agent with one tool that can be held, and a store and queue of its own."""

    def __init__(self, folder: Path) -> None:
        self.queue = f"q{uuid.uuid4().hex[:8]}"
        self.store = f"sqlite:///{folder / 'store.db'}"
        self.started = asyncio.Event()
        self.released = asyncio.Event()
        self.bodies = 0
        script = folder / "script.yaml"
        script.write_text(SCRIPT)

        @tool(name="work")
        async def work() -> str:
            """Work until released."""
            self.bodies += 1
            self.started.set()
            await self.released.wait()
            return "done"

        self.agent = Agent("worker", model=f"scripted:{script}", tools=[work])

    async def start(self, client: Client, **request: Any) -> WorkflowHandle[Any, Any]:
        """Start a run of the agent, as any Temporal client would."""
        return await client.start_workflow(
            "AgentRun",
            {"agent": "worker", "prompt": "go", **request},
            id=f"zidane-{uuid.uuid4().hex}",
            task_queue=self.queue,
        )


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


@dataclass
class Order:
    """The user's own argument, under the default converter."""

    item: str


class Receipt(BaseModel):
    """The user's own model, under pydantic's converter."""

    item: str
    cents: int


@activity.defn
async def own_activity(item: str) -> int:
    return len(item)


# The sandbox would import this module, and pytest with it, for each run.
@workflow.defn(sandboxed=False)
class OwnWorkflow:
    @workflow.run
    async def run(self, order: Order) -> int:
        return await workflow.execute_activity(
            own_activity, order.item, start_to_close_timeout=timedelta(seconds=10)
        )


@workflow.defn(sandboxed=False)
class OwnModelWorkflow:
    @workflow.run
    async def run(self, receipt: Receipt) -> Receipt:
        return receipt.model_copy(update={"cents": receipt.cents + 1})


@pytest.mark.parametrize("converter", [DataConverter.default, pydantic_data_converter])
@pytest.mark.parametrize("is_on_client", [True, False])
async def test_agent_runs_work_beside_a_users_own_workflows(
    server: EmbeddedServer, work: Work, converter: DataConverter, is_on_client: bool
) -> None:
    """DUR-01, DUR-03: on an existing client or worker, whose data converter stays."""
    plugins = [ZidanePlugin([work.agent], store=work.store)]
    client = await Client.connect(
        server.address, data_converter=converter, plugins=plugins if is_on_client else []
    )
    assert client.data_converter is converter
    work.released.set()
    async with Worker(
        client,
        task_queue=work.queue,
        workflows=[OwnWorkflow, OwnModelWorkflow],
        activities=[own_activity],
        plugins=[] if is_on_client else plugins,
    ):
        run = await work.start(client)
        own = await client.execute_workflow(
            OwnWorkflow.run, Order(item="lamp"), id=f"own-{work.queue}", task_queue=work.queue
        )
        assert own == 4
        if converter is pydantic_data_converter:
            receipt = await client.execute_workflow(
                OwnModelWorkflow.run,
                Receipt(item="lamp", cents=1),
                id=f"model-{work.queue}",
                task_queue=work.queue,
            )
            assert receipt == Receipt(item="lamp", cents=2)
        assert (await run.result())["text"] == "worked: done"


async def test_run_worker_lets_a_call_finish_when_it_is_told_to_stop(
    server: EmbeddedServer, work: Work
) -> None:
    """K-TEMPORAL-06: it drains, and the next worker goes on from the call's result."""
    client = await Client.connect(server.address)
    stop = asyncio.Event()
    draining = asyncio.create_task(
        run_worker([work.agent], client=client, queue=work.queue, store=work.store, stop=stop)
    )
    run = await work.start(client)
    await work.started.wait()
    stop.set()
    work.released.set()
    await draining
    stop.clear()
    following = asyncio.create_task(
        run_worker([work.agent], client=client, queue=work.queue, store=work.store, stop=stop)
    )
    assert (await run.result())["text"] == "worked: done"
    assert work.bodies == 1
    stop.set()
    await following


async def test_run_worker_serves_metrics_for_prometheus(
    server: EmbeddedServer, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.address)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bind = f"127.0.0.1:{probe.getsockname()[1]}"
    stop = asyncio.Event()
    running = asyncio.create_task(
        run_worker([work.agent], queue=work.queue, store=work.store, metrics=bind, stop=stop)
    )

    def scraped() -> str:
        try:
            with urllib.request.urlopen(f"http://{bind}/metrics") as answer:
                return answer.read().decode()
        except OSError:
            return ""

    async def has_polls() -> bool:
        return "temporal_num_pollers" in await asyncio.to_thread(scraped)

    await until("metrics of pollers", has_polls)
    stop.set()
    await running


async def test_two_agents_of_one_name_are_refused(work: Work) -> None:
    with pytest.raises(InvalidRequestError, match="Two agents are named 'worker'"):
        ZidanePlugin([work.agent, work.agent])


async def test_a_run_waits_for_a_worker_that_has_its_agent(
    server: EmbeddedServer, work: Work
) -> None:
    """DUR-02: a deploy without the agent neither fails nor loses the run."""
    client = await Client.connect(server.address)
    work.released.set()
    plugin = ZidanePlugin([work.agent], store=work.store)
    async with Worker(client, task_queue=work.queue, plugins=[plugin]):
        run = await work.start(client)
        await run.signal("pause")

        async def is_paused() -> bool:
            return (await run.query("status"))["phase"] == "paused"

        await until("the pause", is_paused)
    other = ZidanePlugin([Agent("other")], store=work.store)
    async with Worker(client, task_queue=work.queue, plugins=[other]):
        await run.signal("resume")

        async def last_failure() -> str:
            pending = (await run.describe()).raw_description.pending_activities
            return pending[0].last_failure.application_failure_info.type if pending else ""

        assert await until("a failed attempt", last_failure) == "UnknownAgentError"
    async with Worker(client, task_queue=work.queue, plugins=[plugin]):
        assert (await run.result())["status"] == "completed"


async def test_a_start_on_a_worker_without_the_agent_is_refused(
    server: EmbeddedServer, work: Work
) -> None:
    """RUN-02."""
    client = await Client.connect(server.address)
    plugin = ZidanePlugin([work.agent], store=work.store)
    async with Worker(client, task_queue=work.queue, plugins=[plugin]):
        run = await work.start(client, agent="workr")
        with pytest.raises(WorkflowFailureError) as caught:
            await run.result()
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "UnknownAgentError"
    assert "Did you mean 'worker'?" in cause.message
    assert cause.details[0]["status"] == "error"
