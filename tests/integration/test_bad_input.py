"""Whatever a plain Temporal client sends, the answer is typed and the run goes on."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.store import Store, open_store
from activities.toolbox.human import ask_user
from tests.support.crash_rig import until
from worker import ZidanePlugin
from zidane_client.embedded import EmbeddedServer
from zidane_core import Agent, tool

pytestmark = pytest.mark.server

SCRIPT = """
turns:
  - tool_calls: [{name: hold, input: {}}]
  - text: "heard: {{last_result}}"
"""
QUESTIONS = """
turns:
  - tool_calls:
      - {name: ask_user, id: q1, input: {question: "One?"}}
      - {name: ask_user, id: q2, input: {question: "Two?"}}
  - text: "thanks"
"""
UNREADABLE = RawValue(Payload(metadata={"encoding": b"binary/secret"}, data=b"\x00\xff"))
NOT_JSON = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{oops"))


@dataclass
class Desk:
    """A client and a worker with agents `holder` (its tool waits) and `asker`."""

    client: Client
    store: Store
    queue: str
    released: asyncio.Event

    async def start(self, *args: Any, session_id: str | None = None) -> WorkflowHandle[Any, Any]:
        """Start AgentRun with any arguments."""
        return await self.client.start_workflow(
            "AgentRun",
            args=args,
            id=f"zidane-{session_id or uuid.uuid4().hex}",
            task_queue=self.queue,
        )

    async def refusals(self, run: WorkflowHandle[Any, Any]) -> list[str]:
        """Return `name: reason` of the refused messages that watchers of the run can see."""
        events = await self.store.events_after(run.id.removeprefix("zidane-"), 0)
        return [
            f"{event.fields['name']}: {event.fields['reason']}"
            for event in events
            if event.name == "control:refused"
        ]


@pytest.fixture
async def desk(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Desk]:
    """A worker in this process."""
    released = asyncio.Event()

    @tool
    async def hold() -> str:
        """Wait until released."""
        await released.wait()
        return "done"

    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "questions.yaml").write_text(QUESTIONS)
    agents = [
        Agent("holder", model=f"scripted:{tmp_path / 'script.yaml'}", tools=[hold]),
        Agent("asker", model=f"scripted:{tmp_path / 'questions.yaml'}", tools=[ask_user]),
    ]
    client = await Client.connect(server.address)
    store = await open_store(f"sqlite:///{tmp_path / 'store.db'}")
    queue = f"q{uuid.uuid4().hex[:8]}"
    plugin = ZidanePlugin(agents, store=store)
    async with Worker(client, task_queue=queue, plugins=[plugin]):
        yield Desk(client, store, queue, released)
        released.set()
    await store.close()


async def failed_tasks(run: WorkflowHandle[Any, Any]) -> int:
    """Return how often a workflow task of the run failed."""
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    return sum(event.event_type == failed for event in (await run.fetch_history()).events)


async def in_phase(run: WorkflowHandle[Any, Any], phase: str) -> dict[str, Any]:
    """Return the status once the run is in a phase."""

    async def found() -> dict[str, Any] | None:
        status = await run.query("status")
        return status if status["phase"] == phase else None

    return await until(phase, found)


async def open_questions(run: WorkflowHandle[Any, Any]) -> list[str]:
    """Return the call ids of the open questions."""
    return [question["call_id"] for question in (await run.query("status"))["questions"]]


async def has_question(run: WorkflowHandle[Any, Any], call_id: str) -> bool:
    """Say whether a question is open."""
    return call_id in await open_questions(run)


async def answer_both(run: WorkflowHandle[Any, Any]) -> None:
    """Answer one question after the other, which ends the run."""
    for call_id in ("q1", "q2"):
        await until(call_id, lambda wanted=call_id: has_question(run, wanted))
        await run.execute_update("answer", {"call_id": call_id, "answer": "yes"})
    assert (await run.result())["text"] == "thanks"


@pytest.mark.parametrize(
    ("request_", "type_", "says"),
    [
        ({"agent": "holdr", "prompt": "x"}, "UnknownAgentError", "Did you mean 'holder'?"),
        ({"agent": "holder"}, "InvalidRequestError", "No prompt"),
        ({"agent": "holder", "promt": "x"}, "InvalidRequestError", "Did you mean 'prompt'?"),
        (
            {"agent": "holder", "prompt": "x", "behavior": {"max_turn": 3}},
            "InvalidRequestError",
            "Unknown field behavior.max_turn. Did you mean 'max_turns'?",
        ),
        (
            {"agent": "holder", "prompt": "x", "behavior": {"max_turns": "many"}},
            "InvalidRequestError",
            "behavior.max_turns: 'many'",
        ),
        ({"agent": "holder", "prompt": "x", "model": "gpt"}, "UnknownModelError", "'gpt'"),
        ({"agent": "holder", "prompt": "x", "tools": ["hodl"]}, "InvalidRequestError", "'hold'"),
        ({"agent": "holder", "prompt": "x", "workspace": "rel"}, "InvalidRequestError", "'rel'"),
        (
            {"agent": "holder", "prompt": "x", "session_id": "elsewhere"},
            "InvalidRequestError",
            "needs workflow id 'zidane-elsewhere'",
        ),
        ({"prompt": "x"}, "InvalidRequestError", "'agent'"),
        ("holder", "InvalidRequestError", "got str"),
        (["holder"], "InvalidRequestError", "got list"),
        (5, "InvalidRequestError", "got int"),
        (None, "InvalidRequestError", "got NoneType"),
        (b"\x00\xff", "InvalidRequestError", "got bytes"),
    ],
)
async def test_a_bad_start_ends_as_a_typed_refusal(
    desk: Desk, request_: Any, type_: str, says: str
) -> None:
    """RUN-02 to RUN-06, K-TEMPORAL-05: one failed run, no failed workflow task."""
    run = await desk.start(request_)
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(run.result(), 10)
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == type_
    assert says in cause.message
    result = cause.details[0]
    assert (result["status"], result["error"]["type"]) == ("error", type_)
    assert await failed_tasks(run) == 0


GOOD = {"agent": "holder", "prompt": "x"}


@pytest.mark.parametrize("args", [(), (GOOD, {"phase": "done"}), (GOOD, None), (GOOD, 1, 2)])
async def test_a_start_with_no_argument_or_several_is_a_typed_refusal(
    desk: Desk, args: tuple[Any, ...]
) -> None:
    """K-TEMPORAL-05."""
    run = await desk.start(*args)
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(run.result(), 10)
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "InvalidRequestError"
    assert await failed_tasks(run) == 0


async def test_a_second_start_on_a_busy_session_is_refused(desk: Desk) -> None:
    """DUR-05, RUN-19, DUR-17."""
    request = {"agent": "holder", "prompt": "x"}
    run = await desk.start(request, session_id=f"busy-{desk.queue}")
    with pytest.raises(WorkflowAlreadyStartedError):
        await desk.start(request, session_id=f"busy-{desk.queue}")
    desk.released.set()
    assert (await run.result())["status"] == "completed"


BAD_MESSAGES: list[tuple[Any, ...]] = [
    (),
    (5,),
    (None,),
    ("",),
    ([],),
    ({"txt": "a"},),
    ({"prompt": ""},),
    ({"prompt": 5},),
    ({"prompt": "a", "id": 5},),
    (b"\x00\xff",),
    (UNREADABLE,),
    (NOT_JSON,),
    ("x" * 300_000,),
]
BAD_SIGNALS: list[tuple[str, tuple[Any, ...]]] = [
    *(("steer", message) for message in BAD_MESSAGES),
    *(("follow_up", message) for message in BAD_MESSAGES),
    ("pause", ("now",)),
    ("pause", ({"mode": "soon"},)),
    ("pause", (UNREADABLE,)),
    ("abort", (5,)),
    ("abort", ({"why": "a"},)),
    ("abort", (NOT_JSON,)),
    ("abort", ("x" * 300_000,)),
    ("suspend", (UNREADABLE,)),
    ("resume", (UNREADABLE,)),
    ("steer", ("two", "arguments")),
    ("steal", ("no such signal",)),
]


async def test_malformed_signals_leave_a_trace_and_the_run_goes_on(desk: Desk) -> None:
    """K-TEMPORAL-15."""
    run = await desk.start({"agent": "holder", "prompt": "x"})
    await in_phase(run, "tools")
    for name, args in BAD_SIGNALS:
        await run.signal(name, args=args)
    for name in ("steer", "follow_up", "pause", "abort"):
        with pytest.raises(RPCError, match="Blob data size exceeds limit"):
            await run.signal(name, "x" * 3_000_000)
    await run.signal("steer", "the good one")

    async def all_seen() -> bool:
        return len(await desk.refusals(run)) == len(BAD_SIGNALS)

    await until("all refusals", all_seen)
    assert [text.split(":")[0] for text in await desk.refusals(run)] == [
        name for name, _ in BAD_SIGNALS
    ]
    desk.released.set()
    result = await run.result()
    assert result["status"] == "completed"
    turns = await desk.store.turns_of_run(result["run_id"])
    texts = [turn.text for turn in turns if turn.role == "user"]
    assert texts == ["x", "", "the good one"]
    assert await failed_tasks(run) == 0


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("yes", "an answer is"),
        (None, "an answer is"),
        (b"\x00\xff", "an answer is"),
        ({"answer": "yes"}, "an answer is"),
        ({"call_id": "q9", "answer": "yes"}, "no open question has call id 'q9'"),
        ({"call_id": ["q1"], "answer": "yes"}, "no open question"),
        ({"call_id": None, "answer": "yes"}, "no open question"),
        ({"call_id": "q1", "answer": "x" * 300_000}, "at most 262144 are taken"),
    ],
)
async def test_a_wrong_answer_is_refused_and_the_question_stays_open(
    desk: Desk, answer: Any, says: str
) -> None:
    """K-TEMPORAL-15, TOOL-18."""
    run = await desk.start({"agent": "asker", "prompt": "x"})
    await in_phase(run, "waiting")
    with pytest.raises(WorkflowUpdateFailedError) as caught:
        await run.execute_update("answer", answer)
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "AnswerRefused"
    assert says in caught.value.cause.message
    assert await open_questions(run) == ["q1"]
    await answer_both(run)
    assert await failed_tasks(run) == 0


async def test_unreadable_answers_and_missing_ones_do_not_wedge_the_run(desk: Desk) -> None:
    """K-TEMPORAL-15."""
    run = await desk.start({"agent": "asker", "prompt": "x"})
    await in_phase(run, "waiting")
    for args in [(), (UNREADABLE,), (NOT_JSON,), ({"call_id": "q1"}, 2)]:
        with pytest.raises(WorkflowUpdateFailedError):
            await run.execute_update("answer", args=args)
    await answer_both(run)
    assert await failed_tasks(run) == 0


async def test_a_question_is_answered_once(desk: Desk) -> None:
    """TOOL-18."""
    run = await desk.start({"agent": "asker", "prompt": "x"})
    await in_phase(run, "waiting")
    await run.execute_update("answer", {"call_id": "q1", "answer": "yes"})
    with pytest.raises(WorkflowUpdateFailedError):
        await run.execute_update("answer", {"call_id": "q1", "answer": "no"})
    await until("the second question", lambda: has_question(run, "q2"))
    await run.execute_update("answer", {"call_id": "q2", "answer": {"any": ["json"]}})
    result = await run.result()
    (results,) = [
        turn.tool_results
        for turn in await desk.store.turns_of_run(result["run_id"])
        if turn.tool_results
    ]
    assert [entry.output for entry in results] == ["yes", '{"any": ["json"]}']
