"""Decisions of a client on a real server: answered by a worker, or a reason why not."""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker

from activities.decide_inline import decide_inline
from activities.providers.base import ProviderMeta
from tests.client.conftest import Place
from tests.support.decisions import REQUEST, Hanging
from tests.support.inline_runs import PlayedModel, says
from tests.support.server import replay
from worker import ZidanePlugin
from zidane_client import ZidaneClient
from zidane_core import (
    Agent,
    DecisionError,
    DecisionFailure,
    DecisionOptions,
    DecisionSuccess,
    PredicateAnswer,
)
from zidane_core.hooks import DecisionEnd
from zidane_core.tools import ToolSpec

pytestmark = pytest.mark.server

YES = "turns: [{text: '{\"late\": true}'}]"


def worker(
    place: Place, agent: Agent, providers: Mapping[str, Any] | None = None
) -> AbstractAsyncContextManager[Worker]:
    plugin = ZidanePlugin([agent], store=place.store, providers=providers)
    return Worker(place.temporal, task_queue=place.queue, plugins=[plugin])


def failure(outcome: DecisionSuccess | DecisionFailure) -> DecisionFailure:
    assert isinstance(outcome, DecisionFailure), outcome
    return outcome


async def decisions_of(place: Place) -> list[WorkflowHandle[Any, Any]]:
    """The decisions that were started on the place's queue, once the server lists them."""
    query = f"WorkflowType = 'ZidaneDecide' AND TaskQueue = '{place.queue}'"
    async with asyncio.timeout(30):
        while True:
            found = [each async for each in place.temporal.list_workflows(query)]
            if found:
                return [place.temporal.get_workflow_handle(each.id) for each in found]
            await asyncio.sleep(0.05)


async def test_a_client_gets_the_workers_answers_with_the_agents_options_and_hooks(place: Place):
    """DEC-01, DEC-06, DEC-07, DEC-11."""
    ends: list[DecisionEnd] = []

    async def record(end: DecisionEnd) -> None:
        ends.append(end)

    options = DecisionOptions(model=place.script(YES))
    agent = Agent("desk", decisions=options, hooks={"decision:end": record})
    async with worker(place, agent):
        outcome = await place.client.decide(REQUEST, agent=agent)
        assert isinstance(outcome, DecisionSuccess), outcome
        assert outcome.answers == {"late": PredicateAnswer(value=True)}
        assert outcome.provider == "scripted"
        (end,) = ends
        assert (end.decision_id, end.run_id) == (outcome.decision_id, None)
        (handle,) = await decisions_of(place)
    assert handle.id.startswith("zidane-decide-")
    await replay(await handle.fetch_history())


async def test_without_an_agent_the_request_names_the_model_even_by_a_relative_script(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """DEC-03."""
    (place.folder / "yes.yaml").write_text(YES)
    async with worker(place, Agent("desk")):
        monkeypatch.chdir(place.folder)
        given = {**REQUEST.packed(), "model": "scripted:yes.yaml"}
        assert (await place.client.decide(given)).ok
        unnamed = failure(await place.client.decide(REQUEST))
    assert unnamed.reason == "unavailable"
    assert "No model for decisions" in unnamed.message


async def test_what_is_wrong_is_a_typed_failure_and_raises_only_with_throw(place: Place):
    """DEC-01, DEC-08, DEC-09, ERR-05."""
    async with worker(place, Agent("desk")):
        unknown = failure(await place.client.decide(REQUEST, agent="dsk"))
        with pytest.raises(DecisionError, match="Did you mean 'desk'"):
            await place.client.decide(REQUEST, agent="dsk", throw=True)
    assert unknown.reason == "unavailable"
    assert unknown.error is not None
    assert unknown.error["type"] == "UnknownAgentError"
    bad = failure(await place.client.decide({"input": "x", "questions": {}}, agent="desk"))
    assert (bad.reason, bad.message) == ("invalid", "A decision needs at least one question.")
    big = {**REQUEST.packed(), "input": "x" * 300_000}
    large = failure(await place.client.decide(big, agent="desk"))
    assert large.reason == "invalid"
    assert "at most 262144" in large.message


async def test_without_a_worker_it_is_unavailable_and_nothing_is_left_behind(place: Place):
    """DEC-09, DEC-03."""
    quick = REQUEST.model_copy(update={"timeout_ms": 200})
    failed = failure(await place.client.decide(quick, agent="desk"))
    assert failed.reason == "unavailable"
    assert place.queue in failed.message
    (handle,) = await decisions_of(place)
    assert (await handle.describe()).status is WorkflowExecutionStatus.TERMINATED


async def test_without_a_server_it_is_unavailable(place: Place):
    """DEC-09."""
    lazy = await Client.connect("127.0.0.1:9", lazy=True)
    client = ZidaneClient(lazy, store=place.store, task_queue=place.queue)
    failed = failure(await client.decide(REQUEST, agent="desk"))
    assert failed.reason == "unavailable"
    assert failed.error is not None
    assert failed.error["type"] == "ServerUnreachableError"


async def test_a_client_that_goes_away_ends_the_decision_and_its_model_call(place: Place):
    """DEC-09: nobody pays for an answer that nobody takes."""
    hanging = Hanging()
    model = PlayedModel([hanging], meta=ProviderMeta(decision_model="small"))
    slow = DecisionOptions(model="played:m", timeout_ms=600_000)
    async with worker(place, Agent("desk", decisions=slow), {"played": model}):
        asking = asyncio.create_task(place.client.decide(REQUEST, agent="desk"))
        await hanging.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(hanging.left.wait(), 30)


async def test_an_agents_longer_limit_is_waited_for(place: Place):
    """DEC-03."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(request: Any, sink: Any) -> Any:
        asked.set()
        await go.wait()
        return says('{"late": false}')

    model = PlayedModel([slowly])
    slow = DecisionOptions(model="played:m", timeout_ms=600_000)
    async with worker(place, Agent("desk", decisions=slow), {"played": model}):
        asking = asyncio.create_task(place.client.decide(REQUEST, agent="desk"))
        await asked.wait()
        # Past the limit that holds where nobody sets one.
        done, _ = await asyncio.wait({asking}, timeout=5.5)
        assert not done
        go.set()
        assert (await asking).ok


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["text"],
        [{"agent": 3, "request": REQUEST.packed()}],
        [{"agent": None}],
        [{"agent": None, "request": {"input": "x", "questions": 3}}],
        [{"agent": None, "request": REQUEST.packed()}, "more"],
    ],
)
async def test_a_workflow_started_with_nonsense_answers_invalid(place: Place, arguments: list[Any]):
    """DEC-09: from any Temporal client, and no task of the workflow fails for it."""
    async with worker(place, Agent("desk")):
        handle = await place.temporal.start_workflow(
            "ZidaneDecide",
            args=arguments,
            id=f"zidane-decide-{uuid.uuid4()}",
            task_queue=place.queue,
        )
        outcome = DecisionFailure.unpacked(await asyncio.wait_for(handle.result(), 30))
        history = await handle.fetch_history()
    assert outcome.reason == "invalid"
    kinds = [event.WhichOneof("attributes") for event in history.events]
    assert "workflow_task_failed_event_attributes" not in kinds


async def test_the_example_of_the_docs_runs(tmp_path: Path):
    """DEC-01, DEC-05: docs/decisions.md."""
    text = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text()
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(text.split("```python\n")[1].split("```")[0], "decisions.md", "exec"), names)
    agent: Agent = names["agent"]
    assert isinstance(agent.tools["triage"].spec, ToolSpec)
    script = tmp_path / "triage.yaml"
    reply = '{"urgent": true, "topic": "billing", "anger": {"refusal": "too short"}}'
    script.write_text(f"turns: [{{text: '{reply}'}}]")
    outcome = await decide_inline(
        agent, {"input": "Hi", "questions": names["TRIAGE"], "model": f"scripted:{script}"}
    )
    assert isinstance(outcome, DecisionSuccess)
    assert names["shown"](outcome.answers) == {
        "urgent": "True",
        "topic": "billing",
        "anger": "refused, too short",
    }
