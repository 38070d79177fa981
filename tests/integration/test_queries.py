"""A query that comes between a result and its workflow task must not split that task in two."""

import asyncio
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import WorkflowInstance

from activities.store import Store
from tests.support.gates import Gates
from tests.support.server import queue_of, replay, scene_worker
from workflows.whole_tasks import WholeTasksInstance

RUNS = 20


class Recorder(WorkflowInstance):
    """An instance that notes what it is given."""

    def __init__(self) -> None:
        self.seen: list[list[str | None]] = []

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        self.seen.append([job.WhichOneof("variant") for job in act.jobs])
        completion = WorkflowActivationCompletion(run_id=act.run_id)
        completion.successful.SetInParent()
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return None

    def get_external_store_context(self, command_info: Any) -> Any:
        return None

    def get_info(self) -> Any:
        return None


def activation(began_s: int, length: int, *jobs: str) -> WorkflowActivation:
    act = WorkflowActivation(run_id="r", history_length=length)
    act.timestamp.FromSeconds(began_s)
    for name in jobs:
        getattr(act.jobs.add(), name).SetInParent()
    return act


def test_early_jobs_are_kept_from_workflow_code_and_the_run_leaves_the_cache():
    """K-TEMPORAL-10: only what has a task of its own is acted on."""
    recorder, evicted = Recorder(), list[str]()
    guarded = WholeTasksInstance(recorder, evicted.append)
    guarded.activate(activation(1, 3, "initialize_workflow"))
    guarded.activate(activation(1, 8, "resolve_activity"))
    assert evicted == []
    guarded.activate(activation(1, 8, "query_workflow"))
    assert evicted == ["r"]
    guarded.activate(activation(1, 8, "remove_from_cache"))
    assert recorder.seen == [["initialize_workflow"], ["query_workflow"], ["remove_from_cache"]]


def test_tasks_local_results_and_queries_in_order_pass_untouched():
    """K-TEMPORAL-10."""
    recorder, evicted = Recorder(), list[str]()
    guarded = WholeTasksInstance(recorder, evicted.append)
    guarded.activate(activation(1, 3, "initialize_workflow"))
    guarded.activate(activation(1, 3, "resolve_activity"))
    guarded.activate(activation(2, 9, "signal_workflow", "resolve_activity"))
    guarded.activate(activation(2, 9, "query_workflow"))
    guarded.activate(activation(3, 14, "resolve_activity"))
    assert len(recorder.seen) == 5
    assert evicted == []


@pytest.mark.server
@pytest.mark.asyncio(loop_scope="session")
async def test_runs_that_are_asked_while_their_worker_is_away_replay(
    client: Client, scene_store: Store, tmp_path: Any
):
    """K-TEMPORAL-09, K-TEMPORAL-10: queries wait for the new worker, results wait for their task,
    and an abort comes in between."""
    queue = queue_of("queries")
    gates = Gates(tmp_path / "gates")
    (tmp_path / "ws").mkdir()
    script = tmp_path / "script.yaml"
    script.write_text("turns: [{error: {kind: auth, times: 9}, text: '<gate mid>'}]")

    async def asked(handle: WorkflowHandle[Any, Any]) -> None:
        while (await handle.query("status"))["phase"] != "parked":
            continue
        await handle.signal("abort")
        result = await handle.result()
        assert result["status"] == "aborted"

    async with scene_worker(client, queue, scene_store):
        handles = [
            await client.start_workflow(
                "AgentRun",
                {
                    "agent": "scenes",
                    "prompt": "go",
                    "model": f"halting:0,scripted,{script}",
                    "workspace": str(tmp_path / "ws"),
                },
                id=f"zidane-{queue}-{number}",
                task_queue=queue,
            )
            for number in range(RUNS)
        ]
        await gates.reached("kill")
    asking = [asyncio.create_task(asked(handle)) for handle in handles]
    gates.open("kill")
    async with scene_worker(client, queue, scene_store):
        await asyncio.gather(*asking)
    histories = [await handle.fetch_history() for handle in handles]
    await replay(*histories)
    assert all(
        event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        for history in histories
        for event in history.events
    )
