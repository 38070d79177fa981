"""An attempt that the server gave up goes on beside its retry: the first to finish wins."""

import signal

import pytest

from tests.support.crash_rig import INTERRUPTED, Rig, Run, WorkerProcess

pytestmark = pytest.mark.crash


async def stale_attempt(rig: Rig, run: Run, point: str) -> WorkerProcess:
    """Hold an attempt of worker `a` whose heartbeats get lost, so that its retry goes elsewhere."""
    run.arm(point, stale=True)
    await run.start()
    stale = rig.worker("a")
    await run.reached(point)
    stale.send(signal.SIGTERM)
    return stale


async def finish_late(run: Run, worker: WorkerProcess, point: str) -> None:
    """Let the stale attempt write, after it ignored that its worker ends."""
    await run.cancelled(point, worker.name)
    run.release(point)
    await run.passed(point.replace("before", "after"), worker.name)
    assert await worker.ended() == 0


async def test_the_late_writer_of_a_turn_is_refused(rig: Rig) -> None:
    """K-STORE-03, DUR-02."""
    point = "before commit_turn 1"
    run = rig.run([{"text": ["made by {worker}"]}])
    stale = await stale_attempt(rig, run, point)
    rig.worker("b")
    result = await run.result()
    assert result["text"] == "made by b"
    turns = await rig.store.turns_of_run(result["run_id"])

    await finish_late(run, stale, point)
    assert await run.conversation() == [("user", "go"), ("assistant", "made by b")]
    assert await rig.store.turns_of_run(result["run_id"]) == turns
    assert len(run.requests()) == 2


async def test_a_stale_turn_that_is_first_stands_and_its_retry_takes_it_over(rig: Rig) -> None:
    """K-STORE-03."""
    point = "before commit_turn 1"
    run = rig.run([{"text": ["made ", "by {worker}"], "calls": [["charge", "a"]]}, {"text": ["x"]}])
    stale = await stale_attempt(rig, run, point)
    run.arm("turn 1 piece 1")
    rig.worker("b")
    await run.reached("turn 1 piece 1")

    await finish_late(run, stale, point)
    run.arm("before begin_call charge 1")
    run.release("turn 1 piece 1")
    await run.reached("before begin_call charge 1")
    assert (await run.handle.query("status"))["last_text"] == "made by a"
    run.release("before begin_call charge 1")
    await run.result()
    assert await run.conversation() == [
        ("user", "go"),
        ("assistant", "made by a"),
        ("user", "charge a: done by b"),
        ("assistant", "x"),
    ]
    assert run.bodies("charge") == 1


@pytest.mark.parametrize("tool", ["look_up", "charge"])
async def test_the_late_writer_of_a_call_is_refused(rig: Rig, tool: str) -> None:
    """K-STORE-03, DUR-02, STATE-08."""
    point = f"before finish_call {tool} 1"
    run = rig.run([{"calls": [[tool, "a"]]}, {"text": ["done"]}])
    stale = await stale_attempt(rig, run, point)
    rig.worker("b")
    result = await run.result()
    output = INTERRUPTED if tool == "charge" else "look_up a: done by b"
    state = {} if tool == "charge" else {"look_up a": "b"}
    assert run.requests(turn=2)[0]["sent"][-1] == output
    turns = await rig.store.turns_of_run(result["run_id"])

    await finish_late(run, stale, point)
    assert await rig.store.turns_of_run(result["run_id"]) == turns
    assert await rig.store.tool_state(run.id) == state
    assert await run.handle.query("tool_state") == state
