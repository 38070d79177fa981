"""A worker is killed at each point of a model turn; no finished turn is paid for again."""

import pytest

from tests.support.crash_rig import Rig

pytestmark = pytest.mark.crash

TURN_POINTS = {
    "before begin_turn 2": 1,
    "after begin_turn 2": 1,
    "turn 2 piece 1": 2,
    "before commit_turn 2": 2,
    "after commit_turn 2": 1,
    "seen turn_streamed 2": 1,
}
"""Each point of the second turn, and how many requests that turn takes in all."""

THREE_TURNS = [
    {"text": ["first"], "calls": [["charge", "a"]]},
    {"text": ["second"], "calls": [["look_up", "b"]]},
    {"text": ["third"]},
]

COMPLETIONS = [
    "seen run_started 1",
    "seen turn_streamed 1",
    "seen tool_called 1",
    "seen turn_streamed 2",
    "seen tool_called 2",
    "seen turn_streamed 3",
    "seen run_finished 1",
]
"""The recorded activity completions of THREE_TURNS, in order."""


@pytest.mark.parametrize("cached", [True, False])
async def test_a_turn_survives_a_kill_and_only_an_unfinished_one_is_asked_again(
    rig: Rig, cached: bool, subtests: pytest.Subtests
) -> None:
    """DUR-02, K-TEMPORAL-16: a run at each point, all on the worker that is killed."""
    plan = [{"text": ["first"], "calls": [["charge", "a"]]}, {"text": ["se", "cond"]}]
    # A worker without a cache takes one workflow task at a time, and would be held in this one;
    # for that case there is a test below.
    points = [point for point in TURN_POINTS if cached or not point.startswith("seen")]
    held = [(rig.run(plan), point) for point in points]
    await rig.killed_at(*held, cached=cached)
    for run, point in held:
        with subtests.test(point):
            result = await run.result()
            assert (result["status"], result["text"]) == ("completed", "second")
            assert await run.conversation() == [
                ("user", "go"),
                ("assistant", "first"),
                ("user", "charge a: done by a"),
                ("assistant", "second"),
            ]
            assert len(run.requests(turn=1)) == 1
            assert len(run.requests(turn=2)) == TURN_POINTS[point]
            assert run.bodies("charge") == 1
            assert result["stats"]["turns"] == 2


@pytest.mark.parametrize(("number", "point"), [*enumerate(COMPLETIONS, start=1)])
async def test_no_recorded_completion_is_paid_for_again(rig: Rig, number: int, point: str) -> None:
    """K-TEMPORAL-16, DUR-01: each model call and each tool call is an activity of its own."""
    run = rig.run(THREE_TURNS)
    run.arm(point)
    await run.start()
    first = rig.worker("a", cached=False)
    await run.reached(point)
    assert await run.completed_activities() == number
    first.kill()
    rig.worker("b", cached=False)
    assert (await run.result())["text"] == "third"
    assert [request["turn"] for request in run.requests()] == [1, 2, 3]
    assert (run.bodies("charge"), run.bodies("look_up")) == (1, 1)
    assert await run.completed_activities() == len(COMPLETIONS)


async def test_the_first_and_the_last_step_of_a_run_survive_a_kill(
    rig: Rig, subtests: pytest.Subtests
) -> None:
    """DUR-02: no prompt turn is doubled, no run record lost."""
    points = (
        "before start_run 1",
        "after start_run 1",
        "before finish_run 1",
        "after finish_run 1",
    )
    held = [(rig.run([{"text": ["done"]}]), point) for point in points]
    await rig.killed_at(*held)
    for run, point in held:
        with subtests.test(point):
            result = await run.result()
            assert await run.conversation() == [("user", "go"), ("assistant", "done")]
            assert len(run.requests()) == 1
            record = await rig.store.run(result["run_id"])
            assert record is not None
            assert (record.status, record.head) == ("completed", result["head"])


async def test_a_killed_stream_is_shown_as_aborted_and_voided_for_watchers(rig: Rig) -> None:
    """K-TEMPORAL-08, CTL-11, DUR-08: what was cut off is never sent to the model."""
    run = rig.run(
        [{"text": ["Hello wor", "ld."], "calls": [["charge", "a"]]}, {"text": ["Good", "bye."]}]
    )
    run.arm("turn 1 piece 1")
    await run.start()
    first = rig.worker("a")
    await run.reached("turn 1 piece 1")
    await run.streamed(1, "Hello wor")
    early = await run.live_text()

    first.kill()
    run.arm("turn 1 piece 2")
    rig.worker("b")
    await run.reached("turn 1 piece 2")
    await run.streamed(2, "Hello world.")
    late = await run.live_text()
    # A higher attempt voids lower ones: both read the text once, whoever joined first.
    assert late == {2: "Hello world."}
    assert max((early | late).items()) == (2, "Hello world.")

    run.release("turn 1 piece 2")
    await run.result()
    assert await run.live_text() == {}
    assert await run.aborted() == ["Hello wor"]
    assert [text for role, text in await run.conversation() if role == "assistant"] == [
        "Hello world.",
        "Goodbye.",
    ]
    sent = [text for request in run.requests() for text in request["sent"]]
    assert "Hello wor" not in sent
    assert sent.count("Hello world.") == 1


async def test_when_all_of_several_workers_are_killed_one_new_worker_ends_all_runs(
    rig: Rig,
) -> None:
    """DUR-02."""
    plan = [{"text": ["fi", "rst"], "calls": [["charge", "a"]]}, {"text": ["second"]}]
    points = ["turn 1 piece 1", "in charge a 1", "before finish_call charge 1"] * 2
    runs = [rig.run(plan) for _ in points]
    for run, point in zip(runs, points, strict=True):
        run.arm(point)
    workers = [rig.worker(name) for name in ("a", "b", "c")]
    for run in runs:
        await run.start()
    for run, point in zip(runs, points, strict=True):
        await run.reached(point)
    for worker in workers:
        worker.kill()
    rig.worker("d")
    for run, point in zip(runs, points, strict=True):
        assert (await run.result())["text"] == "second"
        is_turn = point.startswith("turn")
        assert len(run.requests(turn=1)) == (2 if is_turn else 1)
        assert run.bodies("charge") == 1
