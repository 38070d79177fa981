import math

import pytest

from tests.support.rule_calls import behavior_of
from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import ResultFacts
from zidane_core.loop_options import DEFAULT_BUDGET_EXCLUDE_TOOLS
from zidane_core.rules.output_budget import OutputChecked, TurnOutput, after_call, after_turn


def turn(behavior: AgentBehavior, *results: tuple[str, int]) -> OutputChecked:
    state = TurnOutput()
    for tool, size in results:
        state = after_call(state, behavior, tool=tool, result=ResultFacts(text_bytes=size))
    return after_turn(state, behavior, turn_id="t1")


@pytest.mark.parametrize("off", [None, 0, False, -1, -0.5, math.nan, math.inf])
def test_the_budget_is_off_by_default_and_at_zero(off: object):
    """NUDGE-04."""
    assert behavior_of().tool_output_budget is None
    assert turn(behavior_of(tool_output_budget=off), ("shell", 10**12)).nudge is None


@pytest.mark.parametrize(("size", "nudged"), [(32_767, False), (32_768, False), (32_769, True)])
def test_the_budget_is_crossed_above_it_and_not_at_it(size: int, nudged: bool):
    """NUDGE-04."""
    checked = turn(behavior_of(tool_output_budget=32_768), ("shell", size))
    assert (checked.nudge is not None) is nudged
    assert (checked.event is not None) is nudged


def test_a_loud_turn_gives_a_message_to_sum_up_and_an_event():
    """NUDGE-04, HOOK-42."""
    checked = turn(behavior_of(tool_output_budget=100), ("a", 60), ("b", 41))
    assert checked.nudge is not None
    assert checked.event is not None
    assert checked.nudge.reason == "tool-output-budget"
    assert "101 bytes" in checked.nudge.wording.said()
    assert "sum up" in checked.nudge.wording.said()
    assert checked.event.name == "budget:exceeded"
    assert checked.event.fields == {"turn_id": "t1", "bytes": 101, "budget": 100}


def test_each_turn_counts_for_itself():
    """NUDGE-04."""
    assert turn(behavior_of(tool_output_budget=100), ("a", 99)).state == TurnOutput()
    assert turn(behavior_of(tool_output_budget=100), ("a", 199)).state == TurnOutput()


def test_excluded_tools_do_not_count():
    """NUDGE-05: by canonical name; none is excluded by default."""
    assert behavior_of().tool_output_budget_exclude_tools == ()
    fields = {"tool_output_budget": 100, "tool_output_budget_exclude_tools": ["tool_search"]}
    behavior = behavior_of(**fields)
    assert turn(behavior, ("tool_search", 10**6), ("shell", 100)).nudge is None
    assert turn(behavior, ("tool_search", 10**6), ("shell", 101)).nudge is not None


def test_a_list_of_tools_to_exclude_is_ready():
    """NUDGE-05."""
    assert DEFAULT_BUDGET_EXCLUDE_TOOLS == ("tool_search", "skills_use", "skills_read")
