"""The client on a real server: start, follow, steer, end; and what is known without a worker."""

import asyncio
import time
import uuid

import pytest
from temporalio.client import WorkflowExecutionStatus

from activities.store import open_store
from tests.client.conftest import Place
from zidane_client import RunHandle, ZidaneClient
from zidane_client.following import Piece, TurnShown
from zidane_core.control import QueuedUserMessage
from zidane_core.errors import (
    AgentAbortedError,
    AgentProviderError,
    InvalidRequestError,
    OperationTimeoutError,
    ServerUnreachableError,
    SessionBusyError,
    UnknownAgentError,
    UsageError,
)
from zidane_core.events import EventName
from zidane_core.runs import Phase

pytestmark = pytest.mark.server

SHORT = """
turns:
  - text: "looking"
    tool_calls: [{name: shell, input: {command: "echo found"}}]
  - text: "done: {{prompt}}"
"""
HANGS = """
turns:
  - {text: "first words", chunk_chars: 4, delay_ms: 10, hang_ms: 600000}
  - text: "second"
"""
ASKS = """
turns:
  - tool_calls: [{id: q1, name: ask_user, input: {question: "Which one?"}}]
  - text: "you said {{last_result}}"
"""
OUTAGE = "turns: [{error: {kind: auth, message: 'bad key', times: 1}, text: back}]"


async def until_event(handle: RunHandle, name: EventName) -> None:
    """Wait for an event; the run must not end before it."""
    async with asyncio.timeout(60):
        async for event in handle.events():
            if event.name == name:
                return
    raise AssertionError(f"{name} did not come")


async def test_a_run_is_started_followed_and_its_result_is_typed(place: Place):
    """DUR-03, RUN-01, USE-08, K-TEMPORAL-11."""
    async with place.worker():
        handle = await place.start(SHORT, "hello")
        assert handle.workflow_id == f"zidane-{handle.session_id}"
        described = await place.temporal.get_workflow_handle(handle.workflow_id).describe()
        assert described.status is WorkflowExecutionStatus.RUNNING
        shown = [each async for each in handle.follow()]
        result = await handle.result()
    assert result.status == "completed"
    assert result.run_id == handle.run_id
    assert result.stats.time_till_first_token_ms is not None
    assert "".join(each.text for each in shown if isinstance(each, Piece)) == ("lookingdone: hello")
    assert len([each for each in shown if isinstance(each, TurnShown)]) == 2
    assert [turn.role for turn in await handle.transcript()] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert (await handle.replay()).ok
    assert len(await handle.history()) == 1


async def test_a_busy_session_is_refused_and_the_error_says_to_steer(place: Place):
    """RUN-01, DUR-05."""
    first = await place.start(SHORT)
    with pytest.raises(SessionBusyError, match="steer"):
        await place.start(SHORT, session_id=first.session_id)


async def test_a_steer_reaches_the_run_and_a_repeated_id_only_once(place: Place):
    """CTL-01, CTL-03."""
    async with place.worker():
        handle = await place.start(ASKS)
        await until_event(handle, "question:asked")
        await handle.steer("be brief", id="m1")
        await handle.steer("be brief", id="m1")
        await handle.answer("q1", "the red one")
        await handle.result()
    texts = [turn.text for turn in await handle.transcript() if turn.role == "user"]
    assert texts.count("be brief") == 1


async def test_a_follow_up_is_used_when_the_run_would_end(place: Place):
    """CTL-02."""
    handle = await place.start("turns: [{text: one}, {text: two}]")
    await handle.follow_up(QueuedUserMessage(prompt="and then?"))
    async with place.worker():
        assert (await handle.result()).text == "two"


async def test_a_message_that_a_run_would_refuse_is_refused_before_it_is_sent(place: Place):
    """K-TEMPORAL-15."""
    handle = await place.start(SHORT)
    for message in ("", {"txt": "a"}, "x" * 300_000):
        with pytest.raises(InvalidRequestError):
            await handle.steer(message)


async def test_a_steer_to_a_closed_run_is_refused_also_while_another_one_runs(place: Place):
    """K-STEER-01 b."""
    async with place.worker():
        handle = await place.start(SHORT)
        await handle.result()
        with pytest.raises(UsageError, match=f"over.*--session {handle.session_id}"):
            await handle.steer("also do X")
        newer = await place.start(HANGS, session_id=handle.session_id)
        with pytest.raises(UsageError, match="over"):
            await handle.steer("also do X")
        await newer.abort()
        assert (await newer.result()).unconsumed == ()


async def test_an_answer_is_taken_once_and_a_wrong_one_is_a_usage_error(place: Place):
    """DUR-03."""
    async with place.worker():
        handle = await place.start(ASKS)
        await until_event(handle, "question:asked")
        status = await handle.status()
        assert [question.text for question in status.questions] == ["Which one?"]
        with pytest.raises(UsageError, match="q2"):
            await handle.answer("q2", "x")
        with pytest.raises(InvalidRequestError, match="bytes"):
            await handle.answer("q1", "x" * 300_000)
        await handle.answer("q1", "the red one")
        assert (await handle.result()).text == "you said the red one"
        with pytest.raises(UsageError, match="over"):
            await handle.answer("q1", "the blue one")


async def test_an_answer_without_a_worker_ends_with_what_to_do(place: Place):
    handle = await place.start(ASKS)
    with pytest.raises(OperationTimeoutError, match=r"No worker took.*no worker is polling"):
        await handle.answer("q1", "x", timeout_s=0.5)


async def test_a_failed_run_raises_its_class_with_the_result(place: Place):
    """DUR-03."""
    async with place.worker():
        handle = await place.client.start(
            "a",
            "go",
            model=place.script(OUTAGE),
            behavior={"retry": {"max_attempts": 1}},
            on_provider_failure="fail",
        )
        with pytest.raises(AgentProviderError, match="bad key") as raised:
            await handle.result()
        refused = await place.client.start("nobody", "go")
        with pytest.raises(UnknownAgentError, match="nobody"):
            await refused.result()
        assert [event async for event in refused.events()] == []
    result = raised.value.details["result"]
    assert isinstance(result, dict)
    assert result["status"] == "error"
    assert await place.store.run(refused.run_id) is None


async def test_an_aborted_run_returns_and_a_cancelled_one_raises_and_both_keep_their_words(
    place: Place,
):
    """CTL-09, CTL-11."""
    async with place.worker():
        aborted = await place.start(HANGS)
        await until_event(aborted, "text")
        await aborted.abort("enough")
        assert (await aborted.result()).status == "aborted"
        cancelled = await place.start(HANGS)
        await until_event(cancelled, "text")
        await place.temporal.get_workflow_handle(cancelled.workflow_id).cancel()
        with pytest.raises(AgentAbortedError):
            await cancelled.result()
    for handle in (aborted, cancelled):
        last = (await handle.transcript())[-1]
        assert last.aborted
        assert last.text.startswith("first")


async def test_a_paused_run_is_resumed_in_a_new_one_on_its_session(place: Place):
    """CTL-07, CTL-08."""
    handle = await place.start(SHORT)
    await handle.pause("return")
    async with place.worker():
        assert (await handle.result()).status == "paused"
        resumed = await handle.resume()
        assert resumed.session_id == handle.session_id
        assert resumed.run_id != handle.run_id
        assert (await resumed.result()).text == "done: go"
        with pytest.raises(UsageError, match="followed by"):
            await handle.resume()
        with pytest.raises(UsageError, match="completed"):
            await resumed.resume()


async def test_a_parked_run_says_why_and_goes_on_after_resume(place: Place):
    """DUR-10."""
    async with place.worker():
        handle = await place.start(OUTAGE)
        await until_event(handle, "run:parked")
        status = await handle.status()
        assert status.phase is Phase.PARKED
        assert "bad key" in (status.reason or "")
        assert await handle.resume() is handle
        # The script counts attempts of the turn, so the second one works.
        assert (await handle.result()).text == "back"


async def test_the_status_without_a_worker_comes_from_the_store_within_5_s(place: Place):
    """K-TEMPORAL-09 a."""
    async with place.worker():
        handle = await place.start(ASKS)
        await until_event(handle, "question:asked")
    began = time.monotonic()
    status = await handle.status()
    assert time.monotonic() - began < 5
    assert "no worker" in (status.reason or "")
    assert status.phase is Phase.WAITING
    assert status.turn == 1
    assert [question.call_id for question in status.questions] == ["q1"]
    assert [turn.role for turn in await handle.transcript()] == ["user", "assistant"]


async def test_the_status_of_a_run_that_no_worker_took_says_so(place: Place):
    """K-TEMPORAL-09."""
    handle = await place.start(SHORT)
    status = await handle.status()
    assert status.phase is Phase.STARTING
    assert "no worker is polling" in (status.reason or "")


async def test_a_closed_run_answers_without_a_worker(place: Place):
    """K-TEMPORAL-09 b."""
    async with place.worker():
        handle = await place.start(SHORT)
        await handle.result()
    found = await place.client.handle(handle.session_id)
    status = await found.status()
    assert (status.phase, status.turn, status.agent) == (Phase.DONE, 2, "a")
    assert "has ended; answered from the store (completed)" in (status.reason or "")
    assert (await found.result()).text == "done: go"
    assert len(await found.transcript()) == 4


async def test_the_events_end_when_the_workflow_was_terminated(place: Place):
    async with place.worker():
        handle = await place.start(HANGS)
        await until_event(handle, "text")
        await place.temporal.get_workflow_handle(handle.workflow_id).terminate("test")
        async with asyncio.timeout(30):
            names = [event.name async for event in handle.events()]
    assert "run:done" not in names
    status = await handle.status()
    assert status.phase is Phase.DONE
    assert "terminated" in (status.reason or "")


async def test_runs_are_found_by_unique_beginnings(place: Place):
    prefix = uuid.uuid4().hex
    async with place.worker():
        one = await place.start(SHORT, session_id=f"{prefix}-one")
        two = await place.start(SHORT, session_id=f"{prefix}-two")
        await asyncio.gather(one.result(), two.result())
    assert (await place.client.handle(f"{prefix}-o")).run_id == one.run_id
    assert (await place.client.handle(two.run_id)).session_id == two.session_id
    with pytest.raises(UsageError, match=f"{prefix}-one.*{prefix}-two|{prefix}-two.*{prefix}-one"):
        await place.client.handle(prefix)
    with pytest.raises(UsageError, match="ps"):
        await place.client.handle(uuid.uuid4().hex)
    with pytest.raises(UsageError, match="no id"):
        await place.client.handle("a' OR WorkflowId = 'b")
    runs = await place.client.list_runs(10)
    assert {run.run_id for run in runs if run.status == "completed"} == {one.run_id, two.run_id}


async def test_a_dead_server_is_a_clear_error_and_nothing_was_called():
    """K-TEMPORAL-11 b."""
    with pytest.raises(ServerUnreachableError, match=r"127\.0\.0\.1:1\. .*zidane dev"):
        await ZidaneClient.connect("127.0.0.1:1")


async def test_the_store_is_not_opened_before_it_is_needed(place: Place):
    client = ZidaneClient(
        place.temporal, store="postgresql://u@127.0.0.1:1/none", task_queue=place.queue
    )
    handle = await client.start("a", "go", model=place.script(SHORT))
    await handle.steer("hi")
    await client.close()


async def test_metadata_is_in_the_memo_and_the_first_line_is_the_summary(place: Place):
    """RUN-17."""
    handle = await place.client.start("a", "\nfix it\nplease", metadata={"ticket": 7})
    described = await place.temporal.get_workflow_handle(handle.workflow_id).describe()
    assert await described.memo() == {"agent": "a", "metadata": {"ticket": 7}}
    assert await described.static_summary() == "fix it"


async def test_an_opened_store_is_closed_with_its_client(place: Place):
    url = f"sqlite:///{place.folder / 'other.db'}"
    async with ZidaneClient(place.temporal, store=url, task_queue=place.queue) as client:
        assert (await client.store()).url_shown.endswith("other.db")
    reopened = await open_store(url)
    await reopened.close()
