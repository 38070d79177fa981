"""Single moves of a run that the laws do not spell out."""

import json

import pytest

from tests.support.loop_driver import CANCELLED, LoopDriver, failure, note, plain_receipt
from zidane_core.behavior import AgentBehavior, RetryConfig
from zidane_core.control import Control, parse_control
from zidane_core.loop import Loop
from zidane_core.receipts import RequestFailed, RunStarted, Settled, TurnStreamed
from zidane_core.requests import CallTool, FinishRun, HostCall, StartRun, StreamTurn, Wait
from zidane_core.runs import Phase
from zidane_core.tool_state import ToolStateOp
from zidane_core.tools import INTERRUPTED_RESULT
from zidane_core.usage import TurnUsage


def broken(driver: LoopDriver, *unread: Control) -> LoopDriver:
    """The run after a fault of ours."""
    driver.loop = Loop(driver.loop.faulted(RuntimeError("x"), unread), driver.clock)
    driver.loop.begin()
    return driver


def test_a_refused_start_ends_the_run_with_its_error():
    """RUN-02: nothing was written, so nothing is finished."""
    driver = LoopDriver.begun()
    error = {"type": "UnknownAgentError", "message": "m"}
    step = driver.settle(StartRun, RunStarted(error={**error}))
    assert step.requests == ()
    assert step.result is not None
    assert (step.result.status, step.result.error) == ("error", error)


def test_every_attempt_of_a_turn_has_its_id_and_append():
    """PROV-03, DUR-02: so that a repeated attempt appends nothing twice."""
    driver = LoopDriver.started(AgentBehavior(retry=RetryConfig(initial_delay_ms=100)))
    driver.turn(note("a"))
    driver.called("a")
    first = driver.running(StreamTurn)
    driver.fail(failure())
    wait = driver.running(Wait)
    assert wait.delay_ms == 50
    driver.settle(Wait, plain_receipt(wait))
    second = driver.running(StreamTurn)
    assert (second.turn_id, second.append, second.attempt) == (first.turn_id, first.append, 2)
    assert second.key != first.key


def test_a_run_stays_on_the_target_it_fell_back_to():
    """PROV-10."""
    driver = LoopDriver.started(targets=("a:1", "b:1"))
    driver.fail(failure("auth", retryable=False))
    assert driver.running(StreamTurn).target == 1
    driver.turn(note("c"))
    driver.called("c")
    assert driver.running(StreamTurn).target == 1
    assert driver.event_names.count("model:fallback") == 1


def test_a_resumed_run_tries_the_first_target_anew():
    driver = LoopDriver.started(targets=("a:1", "b:1"))
    driver.fail(failure("auth", retryable=False))
    driver.fail(failure("auth", retryable=False))
    assert driver.phase is Phase.PARKED
    driver.send("resume")
    asked = driver.running(StreamTurn)
    assert (asked.target, asked.attempt) == (0, 3)


def test_an_internal_error_of_an_activity_parks_the_run():
    """K-TEMPORAL-05."""
    driver = LoopDriver.started()
    driver.settle(StreamTurn, RequestFailed(type="InternalError", message="ours"))
    assert (driver.phase, driver.state.reason) == (Phase.PARKED, "ours")


def test_a_call_whose_activity_failed_gets_an_error_result():
    """DUR-02, TOOL-14: the run goes on."""
    driver = LoopDriver.started()
    driver.turn(note("a", safe=True), note("b", safe=True))
    driver.called("a", receipt=RequestFailed(type="StoreError", message="gone"))
    driver.called("b", receipt=CANCELLED)
    (results,) = driver.running(StreamTurn).append
    assert results.kind == "results"
    assert results.made == {"a": "StoreError: gone", "b": INTERRUPTED_RESULT}


def test_state_ops_apply_in_the_order_of_their_receipts():
    """STATE-14."""
    driver = LoopDriver.started()
    driver.turn(note("a", safe=True), note("b", safe=True))
    driver.called("b", ToolStateOp(key="k", value="b"))
    driver.called("a", ToolStateOp(key="k", value="a"))
    assert driver.state.tool_state == {"k": "a"}


def test_a_budget_is_checked_before_queued_messages_are_used():
    """LOOP-16, K-STEER-01."""
    driver = LoopDriver.started(AgentBehavior(max_total_tokens=1))
    driver.send("steer", {"prompt": "s", "id": "s"})
    driver.turn(text="hm", usage=TurnUsage(input=2))
    result = driver.finish()
    assert (result.status, [m.id for m in result.unconsumed]) == ("aborted", ["s"])


def test_the_time_budget_reads_the_runs_clock():
    """BUD-03."""
    driver = LoopDriver.started(AgentBehavior(max_wall_ms=1000))
    driver.clock.time += 1000
    driver.turn(note("a"))
    driver.called("a")
    assert driver.running(StreamTurn)
    driver.clock.time += 1
    driver.turn(note("b"))
    driver.called("b")
    assert driver.running(FinishRun).error is not None


def test_a_message_after_the_end_is_listed_in_the_result():
    """K-STEER-01."""
    driver = LoopDriver.started()
    driver.turn(text="done")
    driver.send("steer", {"prompt": "while finishing", "id": "1"})
    driver.finish()
    step = driver.send("follow_up", {"prompt": "too late", "id": "2"})
    assert step.result is not None
    assert [m.id for m in step.result.unconsumed] == ["1", "2"]


def test_a_pause_that_returns_keeps_steers_in_the_session():
    """CTL-07."""
    driver = LoopDriver.started()
    driver.send("steer", {"prompt": "s", "id": "s"})
    driver.send("pause", {"mode": "return"})
    driver.turn(text="hm")
    assert driver.running(FinishRun).stats.paused
    driver.finish()
    assert driver.delivered() == ["s"]


def test_a_finish_that_fails_still_ends_the_run():
    """LOOP-17."""
    driver = LoopDriver.started()
    driver.turn(text="done")
    step = driver.settle(FinishRun, RequestFailed(type="StoreError", message="gone"))
    assert step.result is not None
    assert step.result.status == "completed"


def test_a_refusal_after_the_end_asks_for_nothing():
    driver = LoopDriver.started()
    driver.turn(text="done")
    driver.finish()
    assert driver.answer("nobody").requests == ()


def test_a_fault_while_a_question_is_open_keeps_the_question():
    """K-TEMPORAL-05: `resume` makes no model call over open calls."""
    driver = LoopDriver.started()
    driver.turn(note("q", place="human"))
    driver.host_calls()
    broken(driver).send("resume")
    assert driver.phase is Phase.WAITING
    assert not any(isinstance(r, StreamTurn) for r in driver.state.running)
    driver.answer("q")
    assert driver.running_calls() == ["q"]


def test_a_fault_while_parked_in_mid_turn_resumes_that_turn():
    """K-TEMPORAL-05."""
    driver = LoopDriver.started()
    asked = driver.running(StreamTurn)
    driver.fail(failure("auth", retryable=False))
    broken(driver).send("resume")
    again = driver.running(StreamTurn)
    assert (again.turn_id, again.turn) == (asked.turn_id, asked.turn)


def test_every_message_behind_the_one_that_raised_is_kept():
    """K-TEMPORAL-05, K-STEER-01."""
    driver = LoopDriver.started()
    unread = [parse_control("steer", {"prompt": m, "id": m}, size=1) for m in ("one", "two")]
    broken(driver, *unread).send("follow_up", {"prompt": "three", "id": "three"})
    driver.send("resume")
    driver.wind_down()
    assert driver.delivered() == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["abort", "suspend"])
def test_a_fault_while_finishing_does_not_lose_the_end(name: str):
    """LOOP-17, K-TEMPORAL-05: the run record is asked for again."""
    driver = LoopDriver.started()
    driver.turn(text="done")
    step = broken(driver).hear(parse_control(name, None, size=0))  # pyright: ignore[reportArgumentType] -- a name of the table
    assert [type(request) for request in step.requests] == [FinishRun]
    assert driver.finish().status == "completed"


def test_an_abort_after_a_fault_answers_the_calls_that_ran():
    """CTL-09, K-TEMPORAL-05: nobody will report for them any more."""
    driver = LoopDriver.started()
    driver.turn(note("a"), note("b"))
    broken(driver).send("abort")
    assert not any(isinstance(r, CallTool) for r in driver.state.running)
    assert driver.finish().status == "aborted"
    assert driver.unanswered_calls() == []


def test_a_host_call_that_fails_changes_nothing():
    driver = LoopDriver.started()
    driver.send("pause")
    driver.turn(text="hm")
    before = driver.state.model_copy(update={"running": ()})
    driver.hear(Settled(key=driver.running(HostCall).key, receipt=CANCELLED))
    assert driver.state == before


def test_a_flood_of_messages_is_refused_before_the_state_outgrows_a_payload():
    """K-STEER-01, DUR-06: refused by an event, never taken and lost."""
    driver = LoopDriver.started()
    for _ in range(6):
        driver.send("follow_up", "x" * 200_000)
    assert len(driver.loop.state.follow_ups) == 3
    assert len(json.dumps(driver.loop.state.packed())) < 1_000_000
    assert driver.event_names.count("control:refused") == 3


def test_a_pause_that_returns_ends_a_finished_run_as_completed():
    """CTL-07: with nothing left to do there is nothing to come back to."""
    driver = LoopDriver.started()
    driver.send("pause", {"mode": "return"})
    driver.turn()
    assert driver.running(FinishRun).status == "completed"


def test_the_next_attempt_knows_how_long_the_failed_ones_took():
    """USE-04: a turn's stream duration includes its retries."""
    driver = LoopDriver.started(AgentBehavior(retry=RetryConfig(initial_delay_ms=0)))
    for took in (300, 200):
        driver.settle(StreamTurn, TurnStreamed(failure=failure(), elapsed_ms=took))
        waits = [request for request in driver.state.running if isinstance(request, Wait)]
        for wait in waits:
            driver.settle(Wait, plain_receipt(wait))
    assert driver.running(StreamTurn).spent_ms == 500
    driver.turn(note("a"))
    driver.called("a")
    assert driver.running(StreamTurn).spent_ms == 0
