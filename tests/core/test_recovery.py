from typing import Any

import pytest

from zidane_core.behavior import AgentBehavior
from zidane_core.errors import AgentLengthResumeExhaustedError, AgentPauseExhaustedError
from zidane_core.rules.recovery import (
    MAX_CUT_CALLS,
    MAX_SERVER_CONTINUATIONS,
    Recovery,
    RecoveryCounts,
    after_turn,
)


def play(behavior: AgentBehavior, *turns: dict[str, Any]) -> list[Recovery]:
    """Each turn's recovery; a turn is what differs from an empty one without calls."""
    counts, made = RecoveryCounts(), list[Recovery]()
    for turn in turns:
        facts: dict[str, Any] = {
            "finish_reason": "stop",
            "has_calls": False,
            "has_text": False,
            "has_thinking": False,
        }
        made.append(after_turn(counts, behavior, **{**facts, **turn}))
        counts = made[-1].counts
    return made


def injected(made: list[Recovery]) -> list[str | None]:
    return [recovery.inject for recovery in made]


PAUSE = {"finish_reason": "pause"}
LENGTH = {"finish_reason": "length"}
REFUSAL = {"finish_reason": "content-filter"}


@pytest.mark.parametrize("reason", ["stop", "tool-calls", "error", "other", None])
def test_other_reasons_end_the_loop(reason: str | None):
    assert play(AgentBehavior(), {"finish_reason": reason}) == [Recovery(RecoveryCounts())]


def test_pauses_go_on_without_limit_by_default():
    """LOOP-06, LOOP-07."""
    assert injected(play(AgentBehavior(), *[PAUSE] * 50)) == ["pause-continue"] * 50


def test_the_cap_on_empty_pauses_ends_the_loop_cleanly():
    """LOOP-07, LOOP-17."""
    made = play(AgentBehavior(max_consecutive_pause_turns=2), PAUSE, PAUSE)
    assert injected(made) == ["pause-continue", None]
    assert made[-1].error is None


def test_text_resets_the_pause_counter_and_thinking_does_not_count():
    """LOOP-07."""
    behavior = AgentBehavior(max_consecutive_pause_turns=2)
    text = {**PAUSE, "has_text": True}
    thinking = {**PAUSE, "has_thinking": True}
    assert injected(play(behavior, PAUSE, text, PAUSE, thinking)) == ["pause-continue"] * 4
    assert injected(play(behavior, PAUSE, thinking, PAUSE))[-1] is None


def test_a_turn_with_calls_resets_every_counter():
    """LOOP-07, LOOP-09, LOOP-11."""
    behavior = AgentBehavior(max_consecutive_pause_turns=2)
    made = play(behavior, PAUSE, {**PAUSE, "has_calls": True}, PAUSE)
    assert injected(made) == ["pause-continue", None, "pause-continue"]
    assert made[1].counts == RecoveryCounts()


def test_length_ends_the_loop_unless_resuming_is_on():
    """LOOP-08."""
    assert injected(play(AgentBehavior(), LENGTH)) == [None]
    assert injected(play(AgentBehavior(resume_on_max_tokens=True), LENGTH)) == ["length-continue"]


def test_a_cap_of_zero_disables_length_resumes():
    """LOOP-09: 0 disables, it is not unlimited."""
    behavior = AgentBehavior(resume_on_max_tokens=True, max_consecutive_length_resumes=0)
    assert injected(play(behavior, LENGTH)) == [None]


def test_eight_length_resumes_that_gave_text_are_the_default_cap():
    """LOOP-09: the first cut is no resume yet; the eighth resumed turn ends the loop."""
    text = {**LENGTH, "has_text": True}
    made = play(AgentBehavior(resume_on_max_tokens=True), *[text] * 9)
    assert injected(made) == ["length-continue"] * 8 + [None]
    assert made[-1].error is None


def test_two_silent_resumes_in_a_row_fail_the_run():
    """LOOP-10, ERR-03."""
    made = play(AgentBehavior(resume_on_max_tokens=True), LENGTH, LENGTH, LENGTH)
    assert injected(made) == ["length-continue", "length-continue", None]
    assert made[-1].error is not None
    assert made[-1].error.code == "AgentLengthResumeExhaustedError"


def test_a_resume_that_gave_text_forgives_a_silent_one():
    """LOOP-10."""
    text = {**LENGTH, "has_text": True}
    made = play(AgentBehavior(resume_on_max_tokens=True), LENGTH, LENGTH, text, LENGTH)
    assert [recovery.error for recovery in made] == [None] * 4


def test_three_refusals_are_tried_again_by_default_and_the_fourth_ends_the_loop():
    """LOOP-11."""
    made = play(AgentBehavior(), *[REFUSAL] * 4)
    assert injected(made) == ["refusal-retry"] * 3 + [None]


def test_a_cap_of_zero_disables_refusal_retries():
    """LOOP-11."""
    behavior = AgentBehavior(max_consecutive_refusal_resumes=0)
    assert injected(play(behavior, REFUSAL)) == [None]


# -- the provider's own tools, and cut calls -----------------------------------------------------

SERVER_PAUSE = {"finish_reason": "pause", "awaits_server": True, "has_text": True}
CUT_CALL = {"finish_reason": "length", "has_calls": True}


def test_a_pause_inside_a_server_tool_goes_on_with_nothing_added():
    """K-ANTHROPIC-03."""
    (made,) = play(AgentBehavior(), SERVER_PAUSE)
    assert (made.inject, made.go_on, made.error) == (None, True, None)


def test_such_pauses_are_bounded_and_end_with_a_typed_error():
    """K-ANTHROPIC-03, variation: 50 times in a row."""
    made = play(AgentBehavior(), *[SERVER_PAUSE] * (MAX_SERVER_CONTINUATIONS + 1))
    assert [recovery.error for recovery in made[:-1]] == [None] * MAX_SERVER_CONTINUATIONS
    assert isinstance(made[-1].error, AgentPauseExhaustedError)
    assert not made[-1].go_on


def test_any_other_turn_starts_the_count_of_pauses_anew():
    """K-ANTHROPIC-03."""
    made = play(AgentBehavior(), SERVER_PAUSE, {"finish_reason": "stop"}, SERVER_PAUSE)
    assert made[-1].counts.server_pauses == 1


def test_calls_cut_by_the_output_limit_in_a_row_end_the_run():
    """K-ANTHROPIC-04: the same answer, again and again."""
    made = play(AgentBehavior(), *[CUT_CALL] * MAX_CUT_CALLS)
    assert [recovery.error is None for recovery in made] == [True, True, False]
    assert isinstance(made[-1].error, AgentLengthResumeExhaustedError)
    whole = {"finish_reason": "tool-calls", "has_calls": True}
    assert play(AgentBehavior(), CUT_CALL, CUT_CALL, whole, CUT_CALL)[-1].error is None
