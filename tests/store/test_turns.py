import asyncio
import hashlib

import pytest

from activities.store import ResultsTurn, Store
from tests.store.builders import Session, assistant, call_block, event, user
from zidane_core.content import TextBlock, ThinkingBlock, ToolResultBlock
from zidane_core.errors import StoreError
from zidane_core.tools import SYNTHETIC_TOOL_RESULT_PLACEHOLDER
from zidane_core.usage import TurnUsage


async def test_a_turn_reads_back_as_it_was_written(store: Store, session: Session, other: Store):
    """SESS-01, SESS-03, SESS-09."""
    first = user(
        "u1", "go", injected="refusal-retry", display="short", message_id="m-1", run_id="r1"
    )
    await session.start(first)
    await session.begin("a1", "u1")
    turn = assistant(
        "a1", "u1", ThinkingBlock(text="hm"), call_block("c1"), usage=TurnUsage(input=3)
    )
    await session.commit(turn)

    expected = (first, turn.model_copy(update={"run_id": "r1"}))
    assert await store.path("s1", "a1") == expected
    assert await other.path("s1", "a1") == expected
    assert await other.turn("a1") == expected[1]
    assert await other.turns_of_run("r1") == expected
    assert await store.turn("nope") is None


async def test_an_empty_session_has_an_empty_path(store: Store):
    assert list(await store.path("s1", None)) == []
    assert await store.session_head("s1") is None


async def test_a_finished_turn_is_reported_and_not_begun_again(store: Store, session: Session):
    """DUR-02."""
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1"), receipt={"tokens": 5})

    start = await session.begin("a1", "u1", user("u2"), attempt=2)

    assert (start.receipt, start.head, start.appended) == ({"tokens": 5}, "a1", ())
    assert await store.turn("u2") is None


async def test_appending_again_keeps_the_first(store: Store, session: Session):
    await session.start()
    first = await session.begin("a1", "u1", user("u2", "one"), user("u3"))
    again = await session.begin("a1", "u1", user("u2", "two"), user("u3"), attempt=2)

    assert again.appended == first.appended
    assert [turn.text for turn in again.appended] == ["one", "hello"]
    assert (first.previous_attempts, again.previous_attempts) == (0, 1)
    assert (first.attempt, again.attempt) == (1, 2)
    assert await session.ids(again.head) == ["u1", "u2", "u3"]
    assert await store.session_head("s1") == "u3"


async def test_each_execution_of_a_turn_has_a_number_of_its_own(session: Session):
    """Activities of two provider attempts both count from 1."""
    await session.start()
    numbers = [(await session.begin("a1", "u1", attempt=1)).attempt for _ in range(3)]

    assert numbers == [1, 2, 3]


async def test_results_are_composed_from_the_calls(store: Store, session: Session):
    """SESS-10, TOOL-10: one result per call in the model's order."""
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1", *map(call_block, ("c1", "c2", "c3"))))
    await session.begin_call("a1", "c3")
    await session.finish_call("a1", "c3", "third")
    results = ResultsTurn("q1", "r1", 40, "a1", ("c1", "c2", "c3"), {"c2": "skipped: user message"})

    start = await session.begin("a2", "a1", results, user("u2"))

    assert start.appended[0].content == (
        ToolResultBlock(call_id="c1", output=SYNTHETIC_TOOL_RESULT_PLACEHOLDER, is_error=True),
        ToolResultBlock(call_id="c2", output="skipped: user message", is_error=True),
        ToolResultBlock(call_id="c3", output="third"),
    )
    assert start.appended[0].role == "user"
    assert await session.ids(start.head) == ["u1", "a1", "q1", "u2"]


async def test_composed_results_never_change_afterwards(store: Store, session: Session):
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1", call_block("c1")))
    results = ResultsTurn("q1", "r1", 40, "a1", ("c1",))
    first = await session.begin("a2", "a1", results)
    await session.finish_call("a1", "c1", "too late")

    again = await session.begin("a2", "a1", results, attempt=2)

    assert again.appended == first.appended


async def test_what_a_dead_attempt_had_streamed_becomes_an_aborted_turn(
    store: Store, session: Session, other: Store
):
    """CTL-11, DUR-08."""
    await session.start()
    await session.begin("a1", "u1")
    pieces = [
        event("thinking", "a1", delta="Let me "),
        event("thinking", "a1", delta="see."),
        event("text", "a1", delta="It is "),
        event("text", "a1", delta="4"),
    ]
    await store.append_events(pieces)

    start = await Session(other).begin("a1", "u1", attempt=2, now=50)

    assert start.receipt is None
    assert start.previous_attempts == 1
    aborted = (await other.turns_of_run("r1"))[1]
    assert aborted.aborted
    assert aborted.content == (ThinkingBlock(text="Let me see."), TextBlock(text="It is 4"))
    assert (aborted.parent_id, aborted.created_at, aborted.run_id) == ("u1", 50, "r1")
    assert await other.events_after("s1", 0) == ()
    await Session(other).commit(assistant("a1", "u1", created_at=60))
    assert await session.ids("a1") == ["u1", "a1"]
    ids = [turn.id for turn in await store.turns_of_run("r1")]
    assert ids == ["u1", aborted.id, "a1"]


async def test_streamed_pieces_still_in_memory_are_kept_too(store: Store, session: Session):
    """CTL-11: the earlier attempt died in this process, before the writer's next commit."""
    await session.start()
    await session.begin("a1", "u1")
    store.events.emit(event("text", "a1", delta="half"))

    await session.begin("a1", "u1", attempt=2)

    assert [turn.text for turn in await store.turns_of_run("r1") if turn.aborted] == ["half"]


async def test_a_failed_attempt_leaves_its_partial_output_and_an_open_turn(
    store: Store, session: Session
):
    await session.start()
    start = await session.begin("a1", "u1")
    store.events.emit(event("text", "a1", delta="par"))

    async def fail():
        await store.fail_turn(
            session_id="s1",
            run_id="r1",
            turn_id="a1",
            attempt=start.attempt,
            head=start.head,
            now=9,
            partial=(TextBlock(text="par"),),
            receipt={"failure": "overloaded"},
        )

    await fail()
    await fail()
    await store.events.flush()

    assert [turn.text for turn in await store.turns_of_run("r1") if turn.aborted] == ["par"]
    assert await store.events_after("s1", 0) == ()
    again = await session.begin("a1", "u1", attempt=2)
    assert again.receipt is None


async def test_a_failure_reported_late_does_not_touch_a_finished_turn(
    store: Store, session: Session
):
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1"))

    await store.fail_turn(
        session_id="s1",
        run_id="r1",
        turn_id="a1",
        attempt=1,
        head="u1",
        now=9,
        partial=(TextBlock(text="stale"),),
        receipt={"failure": "timeout"},
    )

    assert [turn.id for turn in await store.turns_of_run("r1")] == ["u1", "a1"]
    assert (await session.begin("a1", "u1", attempt=3)).receipt == {"turn": "a1"}


async def test_the_first_commit_of_a_turn_stands(store: Store, session: Session, other: Store):
    """K-STORE-03: an attempt that timed out but still runs, and its retry."""
    await session.start()
    await session.begin("a1", "u1")
    await Session(other).begin("a1", "u1", attempt=2)

    done = event("turn:done", "a1")
    first = await Session(other).commit(assistant("a1", "u1", text="two"), done, receipt={"n": 2})
    late = await session.commit(assistant("a1", "u1", text="one"), done, receipt={"n": 1})

    assert (first, late) == ({"n": 2}, {"n": 2})
    assert [turn.text for turn in await store.path("s1", "a1")] == ["hello", "two"]
    assert len(await store.events_after("s1", 0)) == 1


async def test_a_late_commit_does_not_move_the_head_back(
    store: Store, session: Session, other: Store
):
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1"))
    await session.begin("a2", "a1")
    await session.commit(assistant("a2", "a1"), phase="streaming")

    await Session(other).commit(assistant("a1", "u1"), phase="tools")

    run = await store.run("r1")
    assert run is not None
    assert (run.head, run.phase) == ("a2", "streaming")
    assert await store.session_head("s1") == "a2"


async def test_two_writers_leave_whole_records_in_a_defined_order(
    store: Store, session: Session, other: Store
):
    """K-STORE-03: 20 KB records by an attempt and its retry, which race for each turn."""
    await session.start()
    bodies = {"one": "1" * 20_000, "two": "2" * 20_000}

    async def write(writer: Session, text: str) -> list[str]:
        head, won = "u1", list[str]()
        for number in range(60):
            turn_id = f"a{number}"
            await writer.begin(turn_id, head, attempt=number + 1)
            receipt = await writer.commit(
                assistant(turn_id, head, text=bodies[text]), receipt={"by": text}
            )
            won.append(str(receipt["by"]))
            head = turn_id
        return won

    first, second = await asyncio.gather(write(session, "one"), write(Session(other), "two"))

    assert first == second
    path = await store.path("s1", "a59")
    assert [turn.id for turn in path] == ["u1", *(f"a{number}" for number in range(60))]
    assert [turn.text for turn in path][1:] == [bodies[by] for by in first]


async def test_two_writers_with_turns_of_their_own_leave_two_whole_branches(
    store: Store, session: Session, other: Store
):
    """K-STORE-03."""
    await session.start()

    async def write(writer: Session, name: str) -> None:
        head = "u1"
        for number in range(40):
            await writer.begin(f"{name}{number}", head)
            await writer.commit(assistant(f"{name}{number}", head, text=name * 20_000))
            head = f"{name}{number}"

    await asyncio.gather(write(session, "x"), write(Session(other), "y"))

    for name in "xy":
        path = await store.path("s1", f"{name}39")
        assert [turn.id for turn in path][1:] == [f"{name}{number}" for number in range(40)]
        assert {hashlib.md5(turn.text.encode()).hexdigest() for turn in path[1:]} == {
            hashlib.md5((name * 20_000).encode()).hexdigest()
        }
    assert await store.session_head("s1") in ("x39", "y39")


async def test_appending_to_an_unknown_turn_is_refused(store: Store, session: Session):
    await session.start()

    with pytest.raises(StoreError, match="Turn 'gone' is not in the store"):
        await session.begin("a1", "gone", user("u2"))

    assert await store.turn("u2") is None
    assert (await session.begin("a1", "u1")).previous_attempts == 0
