"""The table of phases and controls, walked whole."""

from collections.abc import Callable

import pytest

from tests.support.loop_driver import LoopDriver, failure, note
from zidane_core.control import (
    Abort,
    Answer,
    Control,
    FollowUp,
    Pause,
    QueuedUserMessage,
    Refused,
    Resume,
    Steer,
    Suspend,
)
from zidane_core.receipts import Settled, Waited
from zidane_core.runs import Phase
from zidane_core.state import RunState
from zidane_core.transitions import TABLE, Verdict, verdict

MESSAGE = QueuedUserMessage(prompt="m", id="m1")
CONTROLS: dict[str, Control] = {
    "steer": Steer(message=MESSAGE),
    "follow_up": FollowUp(message=MESSAGE),
    "pause": Pause(mode="return"),
    "resume": Resume(),
    "abort": Abort(),
    "suspend": Suspend(),
    "answer": Answer(call_id="q", answer="yes"),
    "refused": Refused(name="steer", reason="bad"),
}


def _starting() -> LoopDriver:
    return LoopDriver.begun()


def _streaming() -> LoopDriver:
    return LoopDriver.started()


def _tools() -> LoopDriver:
    driver = LoopDriver.started()
    driver.turn(note("a", safe=True), note("q", safe=True, place="human"))
    return driver


def _waiting() -> LoopDriver:
    driver = _tools()
    driver.called("a")
    driver.host_calls()
    return driver


def _paused() -> LoopDriver:
    driver = LoopDriver.started()
    driver.send("pause")
    driver.turn(text="hm")
    driver.host_calls()
    return driver


def _parked() -> LoopDriver:
    driver = LoopDriver.started()
    driver.fail(failure("auth", retryable=False))
    driver.host_calls()
    return driver


def _compacting() -> LoopDriver:
    driver = LoopDriver.started()
    driver.loop.state.phase = Phase.COMPACTING
    return driver


def _finishing() -> LoopDriver:
    driver = LoopDriver.started()
    driver.turn(text="done")
    return driver


def _done() -> LoopDriver:
    driver = _finishing()
    driver.finish()
    return driver


IN_PHASE: dict[Phase, Callable[[], LoopDriver]] = {
    Phase.STARTING: _starting,
    Phase.STREAMING: _streaming,
    Phase.TOOLS: _tools,
    Phase.WAITING: _waiting,
    Phase.PAUSED: _paused,
    Phase.PARKED: _parked,
    Phase.COMPACTING: _compacting,
    Phase.FINISHING: _finishing,
    Phase.DONE: _done,
}
CELLS = [(phase, kind) for phase in Phase for kind in CONTROLS]


def without_events(state: RunState) -> RunState:
    """The state but for what a refusal may add: the event, and the host call that carries it."""
    return state.model_copy(update={"events": (), "running": (), "numbered": 0})


def test_the_table_has_a_cell_for_every_phase_and_control():
    assert set(TABLE) == set(Phase) == set(IN_PHASE)
    assert all(set(row) == set(CONTROLS) for row in TABLE.values())


@pytest.mark.parametrize("phase", list(Phase))
def test_the_walk_begins_in_the_phase_that_it_names(phase: Phase):
    assert IN_PHASE[phase]().phase is phase


@pytest.mark.parametrize(("phase", "kind"), CELLS)
def test_each_control_does_what_its_cell_says(phase: Phase, kind: str):
    """CTL-01 to CTL-09, K-STEER-01, K-TEMPORAL-15."""
    driver = IN_PHASE[phase]()
    before = driver.state.model_copy()
    step = driver.hear(CONTROLS[kind])
    after = driver.state
    match verdict(phase, kind):
        case Verdict.IGNORE:
            assert (after, step.requests, step.cancels) == (before, (), ())
        case Verdict.REFUSE:
            assert "control:refused" in driver.event_names
            assert without_events(after) == without_events(before)
            assert step.cancels == ()
        case Verdict.KEEP:
            kept = [queued.id for queued in driver.loop.status().queued]
            assert kept == ["m1"]
            assert (after.phase, step.requests) == (before.phase, ())
        case Verdict.TAKE:
            assert after != before


@pytest.mark.parametrize("phase", list(Phase))
def test_a_receipt_of_nothing_that_runs_changes_nothing(phase: Phase):
    driver = IN_PHASE[phase]()
    before = driver.state.model_copy()
    step = driver.hear(Settled(key="wait-99", receipt=Waited()))
    assert driver.state == before
    assert (step.requests, step.cancels) == ((), ())


@pytest.mark.parametrize("kind", ["abort", "suspend"])
@pytest.mark.parametrize("phase", [p for p in Phase if p not in (Phase.FINISHING, Phase.DONE)])
def test_a_run_can_be_ended_from_every_phase(phase: Phase, kind: str):
    """CTL-08, CTL-09, LOOP-17: one FinishRun, and every call keeps its result."""
    driver = IN_PHASE[phase]()
    driver.hear(CONTROLS[kind])
    result = driver.wind_down()
    assert result.status == {"abort": "aborted", "suspend": "suspended"}[kind]
    assert driver.unanswered_calls() == []
