"""Structured output: schemas on the wire, answers in text, how often a model may try."""

import json

import pytest

from tests.support.loop_driver import LoopDriver, note, run_started, streamed
from zidane_core.behavior import AgentBehavior
from zidane_core.output import (
    OUTPUT_TOOL,
    OutputRef,
    OutputVerdict,
    output_spec,
    unwrapped,
    values_in,
    wire_schema,
)
from zidane_core.receipts import RunFinished, ToolCalled
from zidane_core.requests import FinishRun, StartRun, StreamTurn
from zidane_core.runs import Phase
from zidane_core.tools import CANCELLED_RESULT
from zidane_core.values import Json

N: Json = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ACCEPTED = OutputVerdict(state="accepted")
MISSING = OutputVerdict(state="missing", note="say it with the tool")


def wanting(**behavior: int) -> LoopDriver:
    driver = LoopDriver.begun()
    started = run_started(AgentBehavior.model_validate(behavior), ("scripted:a",), "park")
    driver.settle(StartRun, started.model_copy(update={"wants_output": True}))
    return driver


def answer(driver: LoopDriver, verdict: OutputVerdict | None, text: str = "It is 5.") -> None:
    driver.settle(StreamTurn, streamed(text=text).model_copy(update={"output": verdict}))


def injected(driver: LoopDriver) -> str:
    (turn,) = driver.running(StreamTurn).append
    assert turn.kind == "injected"
    assert turn.reason == "output-retry"
    return turn.text


# -- schemas and texts -------------------------------------------------------------------------


def test_an_object_schema_goes_on_the_wire_as_it_is():
    assert wire_schema(N) is N
    assert unwrapped(N, {"n": 5}) == {"n": 5}


def test_another_schema_is_wrapped_in_an_object_with_its_definitions_at_the_root():
    """OUT-01."""
    schema: Json = {
        "type": "array",
        "items": {"$ref": "#/$defs/X"},
        "$defs": {"X": {"type": "string"}},
    }
    wired = wire_schema(schema)
    assert wired["$defs"] == schema["$defs"]
    assert wired["properties"] == {"value": {"type": "array", "items": {"$ref": "#/$defs/X"}}}
    assert unwrapped(schema, {"value": ["a"]}) == ["a"]


def test_the_tool_is_read_only_and_quick():
    spec = output_spec(N)
    assert (spec.name, spec.input_schema, spec.placement) == (OUTPUT_TOOL, N, "local")


@pytest.mark.parametrize(
    "text",
    ['{"n": 5}', '  {"n": 5}\n', 'So:\n```json\n{"n": 5}\n```\nDone.', '```\n{"n": 5}\n```'],
)
def test_an_answer_is_found_as_the_whole_text_or_in_a_fence(text: str):
    """K-OUTPUT-01: a fenced block that fits is accepted."""
    assert next(values_in(N, text)) == {"n": 5}


def test_the_last_fence_comes_first():
    text = '```json\n{"n": 1}\n```\nno:\n```json\n{"n": 2}\n```'
    assert list(values_in(N, text)) == [{"n": 2}, {"n": 1}]


@pytest.mark.parametrize("text", ["It is 5.", "", "[1]", "{", '"x"', "[" * 100_000])
def test_prose_and_other_json_are_no_answer(text: str):
    assert list(values_in(N, text)) == []


def test_a_bare_value_counts_for_a_wrapped_schema():
    schema: Json = {"type": "integer"}
    assert next(values_in(schema, "7")) == {"value": 7}
    assert next(values_in(schema, json.dumps({"value": 7}))) == {"value": 7}


# -- the loop ----------------------------------------------------------------------------------


def test_prose_is_reminded_until_an_answer_fits():
    """K-OUTPUT-01, OUT-02."""
    driver = wanting()
    for _ in range(2):
        answer(driver, MISSING)
        assert injected(driver) == "say it with the tool"
    answer(driver, ACCEPTED, '{"n": 5}')
    finish = driver.running(FinishRun)
    assert (finish.status, finish.answer) == ("completed", OutputRef(turn_id=driver.state.turn_id))
    driver.settle(FinishRun, RunFinished(output={"n": 5}))
    assert driver.result.output == {"n": 5}
    assert driver.result.output_refused == ("say it with the tool",) * 2
    assert driver.event_names.count("output:rejected") == 2


def test_prose_for_ever_fails_the_run_with_the_last_text():
    """K-OUTPUT-01, K-OUTPUT-02."""
    driver = wanting(max_output_retries=2)
    for _ in range(3):
        answer(driver, MISSING)
    finish = driver.running(FinishRun)
    assert finish.status == "error"
    assert finish.error is not None
    assert finish.error["type"] == "AgentOutputError"
    driver.settle(FinishRun, RunFinished(refused_answer="It is 5."))
    assert driver.result.error is not None
    assert driver.result.error["details"] == {
        "attempts": 3,
        "reasons": [MISSING.note] * 3,
        "last": "It is 5.",
    }


def test_no_retries_means_the_first_answer_counts():
    driver = wanting(max_output_retries=0)
    answer(driver, MISSING)
    assert driver.running(FinishRun).status == "error"


def test_the_output_tool_next_to_others_ends_the_run_after_all_have_results():
    """K-OUTPUT-03: both run."""
    driver = wanting()
    driver.turn(note("shell"), note("out"))
    driver.called("shell")
    driver.called("out", receipt=ToolCalled(output=ACCEPTED))
    finish = driver.running(FinishRun)
    assert finish.status == "completed"
    (results,) = finish.append
    assert results.kind == "results"
    assert results.call_ids == ("shell", "out")
    assert finish.answer == OutputRef(turn_id=driver.state.turn_id, call_id="out")


def test_a_refused_output_call_goes_back_with_the_other_results_and_no_reminder():
    """K-OUTPUT-03, variation: shell is not run again."""
    driver = wanting()
    driver.turn(note("shell"), note("out"))
    driver.called("shell")
    bad = OutputVerdict(state="invalid", note="n: 'x' is not an integer")
    driver.called("out", receipt=ToolCalled(is_error=True, output=bad))
    stream = driver.running(StreamTurn)
    assert [turn.kind for turn in stream.append] == ["results"]
    assert driver.state.output.refused == (bad.note,)


def test_refused_output_calls_are_bounded_too():
    """K-OUTPUT-02, variation."""
    driver = wanting()
    bad = OutputVerdict(state="invalid", note="no")
    for number in range(5):
        driver.turn(note(f"out{number}"))
        driver.called(f"out{number}", receipt=ToolCalled(is_error=True, output=bad))
    finish = driver.running(FinishRun)
    assert finish.error is not None
    assert finish.error["details"] == {"attempts": 5, "reasons": ["no"] * 5}
    assert [turn.kind for turn in finish.append] == ["results"]


def test_a_run_that_reaches_its_turn_limit_without_output_fails():
    """OUT-01."""
    driver = wanting(max_turns=1)
    driver.turn(note("look"))
    driver.called("look")
    finish = driver.running(FinishRun)
    assert (finish.status, finish.error and finish.error["type"]) == ("error", "AgentOutputError")


def test_an_aborted_run_owes_no_output():
    driver = wanting()
    driver.send("abort")
    assert driver.state.ending is not None
    assert driver.state.ending.status == "aborted"


def test_a_message_after_the_answer_wants_another_answer():
    driver = wanting()
    driver.send("follow_up", "and for 6?")
    answer(driver, ACCEPTED, '{"n": 5}')
    assert driver.phase is Phase.STREAMING
    answer(driver, MISSING)
    assert injected(driver) == MISSING.note


def test_without_a_schema_nothing_of_this_happens():
    driver = LoopDriver.started()
    driver.turn(text="It is 5.")
    finish = driver.running(FinishRun)
    assert (finish.status, finish.answer) == ("completed", None)


def test_the_last_refused_answer_leaves_no_call_without_a_result():
    """K-OUTPUT-03: calls that wait behind it are answered, and the run ends."""
    driver = wanting(max_output_retries=0)
    driver.turn(note("out"), note("later"))
    bad = OutputVerdict(state="invalid", note="no")
    driver.called("out", receipt=ToolCalled(is_error=True, output=bad))
    finish = driver.running(FinishRun)
    (results,) = finish.append
    assert results.kind == "results"
    assert (results.call_ids, results.made) == (("out", "later"), {"later": CANCELLED_RESULT})
