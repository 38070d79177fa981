"""A worker that is told to stop drains; what does not end in time is nobody's wish to stop."""

import signal

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.support.crash_rig import INTERRUPTED, Rig

pytestmark = pytest.mark.crash

POINT = "turn 1 piece 1"
WORDS = [{"text": ["one ", "two ", "three"]}]


async def test_a_stream_that_ends_while_its_worker_drains_is_asked_for_once(rig: Rig) -> None:
    """K-TEMPORAL-06."""
    run = rig.run(WORDS)
    run.arm(POINT)
    await run.start()
    first = rig.worker("a")
    await run.reached(POINT)
    first.send(signal.SIGTERM)
    run.release(POINT)
    assert await first.ended() == 0
    rig.worker("b")
    assert (await run.result())["text"] == "one two three"
    assert len(run.requests()) == 1
    assert await run.aborted() == []


async def test_a_stream_that_outlasts_the_drain_is_made_again_by_another_worker(rig: Rig) -> None:
    """K-TEMPORAL-06, CTL-11: the whole answer once, and the run is not marked stopped."""
    run = rig.run(WORDS)
    run.arm(POINT)
    await run.start()
    first = rig.worker("a")
    await run.reached(POINT)
    await run.streamed(1, "one ")
    first.send(signal.SIGTERM)
    rig.worker("b")
    result = await run.result()
    assert await first.ended() == 0
    assert (result["status"], result["text"]) == ("completed", "one two three")
    assert await run.conversation() == [("user", "go"), ("assistant", "one two three")]
    assert await run.aborted() == ["one "]
    assert len(run.requests()) == 2


async def test_a_clients_abort_in_the_same_place_ends_the_run(rig: Rig) -> None:
    """K-TEMPORAL-06, CTL-09."""
    run = rig.run(WORDS)
    run.arm(POINT)
    await run.start()
    rig.worker("a")
    await run.reached(POINT)
    await run.handle.signal("abort", "enough")
    assert (await run.result())["status"] == "aborted"
    assert await run.aborted() == ["one "]


async def test_temporals_own_cancel_in_the_same_place_ends_the_run_as_cancelled(rig: Rig) -> None:
    """K-TEMPORAL-06."""
    run = rig.run(WORDS)
    run.arm(POINT)
    await run.start()
    rig.worker("a")
    await run.reached(POINT)
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await run.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert await run.aborted() == ["one "]
    record = await rig.store.latest_run(run.id)
    assert record is not None
    assert record.status == "aborted"


@pytest.mark.parametrize("is_released", [True, False])
async def test_a_call_at_work_when_its_worker_is_told_to_stop(rig: Rig, is_released: bool) -> None:
    """DUR-02, K-TEMPORAL-06: it may end; past the drain it is repeated only if it may be."""
    tools = ("look_up", "charge")
    looked, charged = runs = [rig.run([{"calls": [[t, "a"]]}, {"text": ["done"]}]) for t in tools]
    points = [f"in {tool} a 1" for tool in tools]
    for run, point in zip(runs, points, strict=True):
        run.arm(point)
        await run.start()
    first = rig.worker("a")
    for run, point in zip(runs, points, strict=True):
        await run.reached(point)
    first.send(signal.SIGTERM)
    rig.worker("b")
    if is_released:
        for run, point in zip(runs, points, strict=True):
            run.release(point)
    for run in runs:
        assert (await run.result())["status"] == "completed"
    assert await first.ended() == 0
    assert charged.bodies("charge") == 1
    assert looked.bodies("look_up") == (1 if is_released else 2)
    by = "a" if is_released else "b"
    assert looked.requests(turn=2)[0]["sent"][-1] == f"look_up a: done by {by}"
    charge = "charge a: done by a" if is_released else INTERRUPTED
    assert charged.requests(turn=2)[0]["sent"][-1] == charge
