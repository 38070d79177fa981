import asyncio

import pytest

from activities.store import Store
from tests.store.builders import Session, assistant, call_block, event
from zidane_core.errors import StoreError
from zidane_core.tool_state import ToolStateOp


async def _with_calls(session: Session, *call_ids: str) -> None:
    await session.start()
    await session.begin("a1", "u1")
    await session.commit(assistant("a1", "u1", *map(call_block, call_ids)))


async def test_a_finished_call_is_reported_and_not_begun_again(session: Session, other: Store):
    """DUR-02."""
    await _with_calls(session, "c1")
    first = await session.begin_call("a1", "c1")
    await session.finish_call("a1", "c1", receipt={"tokens": 1})
    again = await Session(other).begin_call("a1", "c1", attempt=2)

    assert (first.receipt, first.interrupted) == (None, False)
    assert first.call == call_block("c1")
    assert (again.receipt, again.interrupted) == ({"tokens": 1}, False)
    assert again.call == call_block("c1")


async def test_a_begun_call_that_may_not_repeat_is_interrupted(session: Session, other: Store):
    """DUR-02."""
    await _with_calls(session, "c1")
    await session.begin_call("a1", "c1")
    again = await Session(other).begin_call("a1", "c1", attempt=2)

    assert (again.receipt, again.interrupted) == (None, True)
    receipt = await Session(other).finish_call("a1", "c1", "unknown", interrupted=True)
    late = await session.finish_call("a1", "c1", "it did run")
    assert receipt == late == {"output": "unknown"}


async def test_a_begun_call_that_may_repeat_begins_again(session: Session):
    """DUR-02: the flag of an idempotent tool."""
    await _with_calls(session, "c1")
    await session.begin_call("a1", "c1", repeatable=True)
    again = await session.begin_call("a1", "c1", attempt=2, repeatable=True)

    assert (again.receipt, again.interrupted) == (None, False)


async def test_a_read_only_call_leaves_no_intent(session: Session):
    await _with_calls(session, "c1")
    await session.begin_call("a1", "c1", read_only=True)

    as_if_first = await session.begin_call("a1", "c1", repeatable=False)
    assert not as_if_first.interrupted


async def test_a_read_only_call_has_one_result_too(session: Session):
    await _with_calls(session, "c1")
    await session.begin_call("a1", "c1", read_only=True)
    await session.finish_call("a1", "c1", "text")

    again = await session.begin_call("a1", "c1", read_only=True, attempt=2)
    assert again.receipt == {"output": "text"}


async def test_the_first_result_of_two_writers_stands(session: Session, other: Store):
    """K-STORE-03."""
    await _with_calls(session, *(f"c{number}" for number in range(20)))
    for number in range(20):
        both = await asyncio.gather(
            session.finish_call("a1", f"c{number}", "one", ToolStateOp(key="by", value="one")),
            Session(other).finish_call(
                "a1", f"c{number}", "two", ToolStateOp(key="by", value="two")
            ),
        )

        assert both[0] == both[1]
        assert await other.tool_state("s1") == {"by": both[0]["output"]}


async def test_ops_are_committed_with_the_result(session: Session, store: Store):
    """STATE-05, STATE-08."""
    await _with_calls(session, "c1", "c2")
    ops = (
        ToolStateOp(key="a", value={"n": [1, None]}),
        ToolStateOp(key="b", value=None),
        ToolStateOp(key="a.", value=1),
        ToolStateOp(key="a.", delete=True),
    )
    await session.finish_call("a1", "c1", "done", *ops)
    await session.finish_call("a1", "c1", "done", ToolStateOp(key="z", value=1))

    start = await session.begin_call("a1", "c2")
    assert start.state == {"a": {"n": [1, None]}, "b": None}
    assert await store.tool_state("s1") == start.state
    assert await store.tool_state("s2") == {}


async def test_committing_the_same_ops_twice_is_committing_them_once(store: Store):
    """STATE-05, STATE-08."""
    ops = [ToolStateOp(key="a", value=1), ToolStateOp(key="b", delete=True)]
    await store.commit_state("s1", ops, "c1")
    await store.commit_state("s1", ops, "c1")
    await store.commit_state("s1", [], "c2")

    assert await store.tool_state("s1") == {"a": 1}


async def test_an_unknown_call_is_refused(session: Session):
    await _with_calls(session, "c1")

    with pytest.raises(StoreError, match=r"Call 'c9' of turn 'a1'.*has the calls \['c1'\]"):
        await session.begin_call("a1", "c9")
    with pytest.raises(StoreError, match=r"Call 'c1' of turn 'a9'.*is not there"):
        await session.begin_call("a9", "c1")


async def test_progress_goes_with_the_result(session: Session, store: Store):
    """Live pieces of a call end with it; those of another call stay."""
    await _with_calls(session, "c1", "c2")
    await session.begin_call("a1", "c1")
    for call_id in ("c1", "c2"):
        await store.append_events([event("tool:progress", "a1", call_id=call_id, delta="...")])
    store.events.emit(event("tool:progress", "a1", call_id="c1", delta="more"))

    await session.finish_call("a1", "c1", events=(event("tool:done", "a1", call_id="c1"),))
    await store.append_events([event("tool:progress", "a1", call_id="c1", delta="late")])
    await store.events.flush()

    left = [(entry.name, entry.fields["call_id"]) for entry in await store.events_after("s1", 0)]
    assert left == [("tool:progress", "c2"), ("tool:done", "c1")]
