"""A worker is killed at each point of a tool call; what may not be repeated never runs twice."""

import pytest

from tests.support.crash_rig import INTERRUPTED, Rig

pytestmark = pytest.mark.crash

CALL_POINTS = {
    "before begin_call {tool} 1": (1, 1, False),
    "after begin_call {tool} 1": (1, 0, True),
    "in {tool} a 1": (2, 1, True),
    "before finish_call {tool} 1": (2, 1, True),
    "after finish_call {tool} 1": (1, 1, False),
    "seen tool_called 1": (1, 1, False),
}
"""Each point of a call: bodies started in all of an idempotent and of another tool, and whether
the latter's call ends as interrupted."""


@pytest.mark.parametrize("cached", [True, False])
async def test_a_call_survives_a_kill_and_is_repeated_only_if_it_may_be(
    rig: Rig, cached: bool, subtests: pytest.Subtests
) -> None:
    """DUR-02: a run at each point with each tool, all on the worker that is killed."""
    # A worker without a cache takes one workflow task at a time, and would be held in this one;
    # test_turn_kills.py has that case.
    points = [point for point in CALL_POINTS if cached or not point.startswith("seen")]
    looked = {point: rig.run([{"calls": [["look_up", "a"]]}, {"text": ["x"]}]) for point in points}
    charged = {point: rig.run([{"calls": [["charge", "a"]]}, {"text": ["x"]}]) for point in points}
    await rig.killed_at(
        *((run, point.format(tool="look_up")) for point, run in looked.items()),
        *((run, point.format(tool="charge")) for point, run in charged.items()),
        cached=cached,
    )
    for point in points:
        repeated, started, is_interrupted = CALL_POINTS[point]
        by = "a" if point.startswith(("after finish", "seen")) else "b"
        with subtests.test(point, tool="look_up"):
            run = looked[point]
            assert (await run.result())["status"] == "completed"
            assert run.bodies("look_up") == repeated
            assert [request["turn"] for request in run.requests()] == [1, 2]
            assert run.requests(turn=2)[0]["sent"] == ["go", f"look_up a: done by {by}"]
            assert await run.handle.query("tool_state") == {"look_up a": by}
        with subtests.test(point, tool="charge"):
            run = charged[point]
            assert (await run.result())["status"] == "completed"
            assert run.bodies("charge") == started
            assert [request["turn"] for request in run.requests()] == [1, 2]
            output = INTERRUPTED if is_interrupted else f"charge a: done by {by}"
            assert run.requests(turn=2)[0]["sent"] == ["go", output]
            state = {} if is_interrupted else {"charge a": by}
            assert await run.handle.query("tool_state") == state
            (answer,) = (await run.path())[2].tool_results
            assert answer.is_error is is_interrupted


async def test_a_finished_call_of_a_batch_is_kept_when_its_neighbour_is_killed(rig: Rig) -> None:
    """DUR-02, TOOL-02."""
    run = rig.run([{"calls": [["look_up", "x"], ["look_up", "y"]]}, {"text": ["done"]}])
    run.arm("in look_up y 1")
    await run.start()
    first = rig.worker("a")
    await run.reached("in look_up y 1")
    await run.passed("after finish_call look_up 1", "a")
    first.kill()
    rig.worker("b")
    await run.result()
    assert run.bodies("look_up") == 3
    assert run.requests(turn=2)[0]["sent"][-2:] == [
        "look_up x: done by a",
        "look_up y: done by b",
    ]


async def test_a_killed_local_call_runs_again(rig: Rig) -> None:
    """DUR-02: a quick read-only tool, which has no intent record."""
    run = rig.run([{"calls": [["peek", "a"]]}, {"text": ["done"]}])
    await rig.killed_at((run, "in peek a 1"))
    await run.result()
    assert run.requests(turn=2)[0]["sent"][-1] == "peek a: done by b"
    assert [request["turn"] for request in run.requests()] == [1, 2]


async def test_an_open_question_outlives_its_worker(rig: Rig) -> None:
    """DUR-02, TOOL-18: the run waits without a worker, and is answered on another one."""
    run = rig.run([{"calls": [["ask_user", "May I?"]]}, {"text": ["done"]}])
    await run.start()
    first = rig.worker("a")
    before = await run.phase("waiting")
    first.kill()
    rig.worker("b")
    after = await run.phase("waiting")
    assert after["questions"] == before["questions"]
    answer = {"call_id": after["questions"][0]["call_id"], "answer": "You may"}
    await run.handle.execute_update("answer", answer)
    await run.result()
    assert run.requests(turn=2)[0]["sent"][-1] == "You may"
