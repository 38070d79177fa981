"""What holds for a run whatever happens to it, in whatever order."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clocks import CountingClock
from tests.support.loop_driver import LoopDriver, new_state
from tests.support.strategies import Fortune
from zidane_core.control import FollowUp, Steer
from zidane_core.loop import Incoming, Loop, Step
from zidane_core.requests import CallTool, HostCall
from zidane_core.runs import Phase
from zidane_core.state import RunState

EXAMPLES = settings(max_examples=150, deadline=None)


@st.composite
def runs(draw: st.DrawFn) -> LoopDriver:
    """A run to which anything happened, brought to its end."""
    driver = LoopDriver.begun()
    fortune = Fortune(draw)
    for _ in range(draw(st.integers(0, 40))):
        driver.hear(fortune.next(driver))
    driver.wind_down()
    return driver


def carried(state: RunState) -> RunState:
    """The state as a continue-as-new hands it on: through JSON."""
    return RunState.model_validate(json.loads(json.dumps(state.packed())))


def played(heard: list[Incoming], *, carry: bool) -> list[Step]:
    """The steps of a run that hears these messages."""
    clock = CountingClock()
    loop = Loop(new_state(), clock)
    steps = [loop.begin()]
    for incoming in heard:
        if carry:
            loop = Loop(carried(loop.state), clock)
        steps.append(loop.receive(incoming))
    return steps


@EXAMPLES
@given(runs())
def test_nothing_makes_the_loop_raise_and_every_run_ends(driver: LoopDriver):
    """DUR-01, K-TEMPORAL-05: `runs` raises when the loop does, or when the run gets stuck."""
    assert driver.phase is Phase.DONE
    assert all(isinstance(request, HostCall) for request in driver.state.running)


@EXAMPLES
@given(runs())
def test_no_stored_call_is_left_without_its_result(driver: LoopDriver):
    """SESS-11, K-PAIRING-01: results stand right behind the turn, in call order."""
    assert driver.unanswered_calls() == []


@EXAMPLES
@given(runs())
def test_no_message_is_lost_or_taken_twice(driver: LoopDriver):
    """K-STEER-01, CTL-03: in a stored turn, or listed as unconsumed; steers in their order."""
    sent: dict[str, str] = {}
    for incoming in driver.heard:
        if isinstance(incoming, Steer | FollowUp):
            sent.setdefault(str(incoming.message.id), incoming.kind)
    delivered = driver.delivered()
    unconsumed = [str(message.id) for message in driver.result.unconsumed]
    assert sorted([*delivered, *unconsumed]) == sorted(sent)
    for kind in ("steer", "follow_up"):
        found = [m for m in (*delivered, *unconsumed) if sent[m] == kind]
        assert found == [m for m in sent if sent[m] == kind]


@EXAMPLES
@given(runs())
def test_no_request_is_asked_twice_while_it_runs(driver: LoopDriver):
    """DUR-02: keys are the activities' ids."""
    keys = [r.key for step in driver.steps for r in step.requests]
    assert len(keys) == len(set(keys))


@EXAMPLES
@given(runs())
def test_a_run_carried_over_at_every_step_goes_on_the_same(driver: LoopDriver):
    """DUR-06: continue-as-new between any two messages changes no request and no result."""
    assert played(driver.heard, carry=True) == driver.steps


@EXAMPLES
@given(runs())
def test_the_same_messages_give_the_same_steps(driver: LoopDriver):
    """CLK-06, DUR-12: ids, times, events and all."""
    assert played(driver.heard, carry=False) == driver.steps


@EXAMPLES
@given(runs(), st.data())
def test_a_carried_run_asks_again_for_exactly_what_was_running(
    driver: LoopDriver, data: st.DataObject
):
    """DUR-06: nothing is forgotten and nothing is asked twice."""
    upto = data.draw(st.integers(0, len(driver.heard)))
    clock = CountingClock()
    loop = Loop(new_state(), clock)
    loop.begin()
    for incoming in driver.heard[:upto]:
        loop.receive(incoming)
    asked = Loop(carried(loop.state), clock).begin()
    assert asked.requests == loop.state.running
    assert asked.cancels == ()
    assert asked.result == loop.state.result


@EXAMPLES
@given(runs())
def test_a_fault_at_any_message_loses_nothing(driver: LoopDriver):
    """K-TEMPORAL-05: parked with the message kept; `resume` brings the run to its end."""
    for at in range(0, len(driver.heard), 7):
        again = LoopDriver.begun()
        for incoming in driver.heard[:at]:
            again.hear(incoming)
        broken = again.loop.faulted(RuntimeError("ours"), [driver.heard[at]])
        again.loop = Loop(carried(broken), again.clock)
        assert again.loop.begin() == Step()
        assert again.loop.status().phase is Phase.PARKED
        again.send("resume")
        again.wind_down()
        assert again.unanswered_calls() == []
        heard = [*driver.heard[:at], driver.heard[at]]
        sent = {str(i.message.id) for i in heard if isinstance(i, Steer | FollowUp)}
        listed = [*again.delivered(), *(str(m.id) for m in again.result.unconsumed)]
        assert sorted(listed) == sorted(sent)


@EXAMPLES
@given(runs())
def test_the_cap_on_concurrent_calls_holds_and_unsafe_calls_run_alone(driver: LoopDriver):
    """TOOL-02: seen from outside, over the whole run."""
    again = LoopDriver.begun()
    for incoming in driver.heard:
        again.hear(incoming)
        safe = {slot.note.id: slot.note.is_safe for slot in again.state.batch}
        asked = {question.call_id for question in again.state.questions}
        running = [
            r.call_id for r in again.state.running if isinstance(r, CallTool) and r.call_id in safe
        ]
        busy = {*running, *asked}
        assert len(busy) <= again.state.behavior.max_concurrent_tools
        if any(not safe[call] for call in busy):
            assert len(busy) == 1
