"""What clients have sent, and what a run waits for, outlives its workers."""

import pytest

from tests.support.crash_rig import Rig

pytestmark = pytest.mark.crash


async def test_queued_messages_survive_a_kill_and_are_taken_once_and_in_order(rig: Rig) -> None:
    """DUR-02, CTL-01, CTL-02, CTL-05: sent before the kill, and while no worker is up."""
    run = rig.run([{"text": ["a", "b"]}, {"text": ["steered"]}, {"text": ["followed"]}])
    run.arm("turn 1 piece 1")
    await run.start()
    first = rig.worker("a")
    await run.reached("turn 1 piece 1")
    await run.handle.signal("steer", {"prompt": "left", "id": "m1"})
    await run.handle.signal("follow_up", "then this")
    await run.status(lambda status: len(status["queued"]) == 2)
    first.kill()
    await run.handle.signal("steer", {"prompt": "right", "id": "m2"})
    await run.handle.signal("steer", {"prompt": "left", "id": "m1"})
    rig.worker("b")
    result = await run.result()
    assert await run.conversation() == [
        ("user", "go"),
        ("assistant", "ab"),
        ("user", "left"),
        ("user", "right"),
        ("assistant", "steered"),
        ("user", "then this"),
        ("assistant", "followed"),
    ]
    assert result["unconsumed"] == []


async def test_a_pause_survives_kills_before_and_after_it_takes_hold(rig: Rig) -> None:
    """DUR-10, CTL-07."""
    run = rig.run([{"text": ["fi", "rst"], "calls": [["charge", "a"]]}, {"text": ["second"]}])
    run.arm("turn 1 piece 1")
    await run.start()
    first = rig.worker("a")
    await run.reached("turn 1 piece 1")
    await run.handle.signal("pause")
    first.kill()
    second = rig.worker("b")
    paused = await run.phase("paused")
    second.kill()
    rig.worker("c")
    still = await run.phase("paused")
    assert (still["reason"], still["head"]) == (paused["reason"], paused["head"])
    assert [request["turn"] for request in run.requests()] == [1, 1]
    await run.handle.signal("resume")
    assert (await run.result())["text"] == "second"
    assert [request["turn"] for request in run.requests()] == [1, 1, 2]
    assert run.bodies("charge") == 1


async def test_a_wait_before_another_attempt_survives_a_kill_and_keeps_count(rig: Rig) -> None:
    """DUR-02, PROV-04: killed between activities."""
    overloaded = {"kind": "overloaded", "message": "busy", "retryable": True}
    error = {**overloaded, "retry_after_ms": 3000}
    run = rig.run([{"text": ["done"], "errors": 2, "error": error}])
    await run.start()
    first = rig.worker("a")
    await run.status(lambda status: "tries again" in (status["reason"] or ""))
    first.kill()
    rig.worker("b")
    assert (await run.result())["text"] == "done"
    assert [request["attempt"] for request in run.requests()] == [1, 2, 3]
