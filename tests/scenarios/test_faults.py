"""Errors in workflow code: typed ends after one task; faults of ours park the run."""

from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowContinuedAsNewError
from temporalio.worker import Worker

from activities.store import Store
from tests.scenarios.book import call
from tests.support.histories import TASK_STARTED, chain, count, failed_tasks
from tests.support.players import TemporalPlayer
from tests.support.scene_agent import scene_agent, scene_providers
from tests.support.server import queue_of, replay
from worker import ZidanePlugin
from zidane_core.behavior import AgentBehavior, RetryConfig
from zidane_core.requests import StreamTurn
from zidane_core.runs import Phase
from zidane_core.state import RunState

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

UNCOUNTABLE = -(10**400)
"""A number of tries for which the loop cannot work out a delay: it raises OverflowError."""


@workflow.defn(sandboxed=False)
class Predecessor:
    """Goes on as an AgentRun with the state that it is given."""

    @workflow.run
    async def run(self, request: Any, carried: Any) -> Any:
        workflow.continue_as_new(args=[request, carried], workflow="AgentRun")


async def test_a_budget_error_closes_the_run_typed_without_a_failed_task(
    client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-05, BUD-02."""
    script = [{"tool_calls": [call("echo", "a", text="x")], "usage": {"input": 9}}]
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", script)
    await player.start(prompt="go", behavior={"max_total_tokens": 1})
    error: Any = (await player.result())["error"]
    assert error["type"] == "AgentBudgetExceededError"
    (history,) = await chain(client, player.handle)
    assert failed_tasks(history) == []


@pytest.mark.parametrize(
    "request_fields",
    [
        {"promt": "x"},
        {"prompt": 5},
        {"session_id": "another"},
    ],
)
async def test_a_bad_request_closes_the_run_typed_after_one_task(
    request_fields: dict[str, Any],
    client: Client,
    scene_queue: str,
    scene_store: Store,
    tmp_path: Path,
):
    """K-TEMPORAL-05, RUN-02."""
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", [])
    await player.start(**request_fields)
    error: Any = (await player.result())["error"]
    assert error["type"] == "InvalidRequestError"
    (history,) = await chain(client, player.handle)
    assert (count(history, TASK_STARTED), failed_tasks(history)) == (1, [])


async def test_a_fault_of_ours_parks_the_run_and_resume_goes_on(
    client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-05: no task fails, no message is lost, and the mended run ends normally."""
    overloaded = {"error": {"status": 529, "times": 99, "retry_after_ms": None}, "text": "never"}
    player = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "s", [overloaded])
    patient = {"retry": {"max_attempts": 1}}
    await player.start(prompt="go", behavior=patient)
    status = await player.phase(Phase.PARKED)
    await player.handle.terminate("its state is spoilt now")
    record = await scene_store.run(player.run_ids[0])
    assert record is not None
    spoilt = RunState(
        run_id=record.run_id,
        session_id=player.session_id,
        agent=record.agent,
        started_at=record.started_at,
        phase=Phase.STREAMING,
        manifest=record.manifest,
        targets=(str(status["model"]),),
        behavior=AgentBehavior(retry=RetryConfig(max_attempts=2)),
        head=record.head,
        turn=1,
        turn_id="11111111-1111-4111-8111-111111111111",
        attempt=1,
        tries=UNCOUNTABLE,
    )
    asked = StreamTurn(
        run_id=spoilt.run_id,
        session_id=spoilt.session_id,
        now=spoilt.started_at,
        manifest=str(record.manifest),
        turn_id=spoilt.turn_id,
        turn=1,
        head=spoilt.head,
    )
    spoilt.running = (asked,)
    request = {"agent": record.agent, "session_id": player.session_id}
    queue = queue_of("spoilt")
    plugin = ZidanePlugin([scene_agent()], store=scene_store, providers=scene_providers())
    async with Worker(client, task_queue=queue, workflows=[Predecessor], plugins=[plugin]):
        handle = await client.start_workflow(
            Predecessor.run,
            args=[request, spoilt.packed()],
            id=f"zidane-{player.session_id}",
            task_queue=queue,
        )
        with pytest.raises(WorkflowContinuedAsNewError):
            await handle.result(follow_runs=False)
        player.handles.append(handle)
        await _mended(player, client)


async def _mended(player: TemporalPlayer, client: Client) -> None:
    status = await player.until(lambda status: "OverflowError" in str(status["reason"]))
    assert status["phase"] == "parked"
    await player.send("steer", {"prompt": "kept", "id": "kept"})
    player.write("script.yaml", [{"text": "mended"}, {"text": "done"}])
    await player.send("resume")
    result = await player.result()
    assert (result["status"], result["text"]) == ("completed", "done")
    played = await player.played()
    assert played.texts == ["user: go", "assistant: mended", "user: kept", "assistant: done"]
    _, *histories = await chain(client, player.handle)
    assert [failed_tasks(history) for history in histories] == [[], []]
    await replay(*histories)
