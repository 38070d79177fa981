import pytest

from tests.support.rule_calls import behavior_of
from zidane_core.behavior import AgentBehavior
from zidane_core.call_facts import Wording
from zidane_core.rules.turn_warning import WarningGiven, after_turn


def warned(behavior: AgentBehavior, turns: int = 30) -> dict[int, Wording]:
    """After which turns a run was warned that goes on all the time."""
    state, made = WarningGiven(), dict[int, Wording]()
    for turn in range(1, turns + 1):
        after = after_turn(state, behavior, turns=turn, goes_on=True)
        state = after.state
        if after.nudge is not None:
            assert after.nudge.reason == "turn-warning"
            made[turn] = after.nudge.wording
    return made


@pytest.mark.parametrize(
    ("max_turns", "warning", "after"),
    [
        (10, 3, [7]),
        (10, 9, [1]),
        (10, 1, [9]),
        (10, 10, []),
        (10, 11, []),
        (10, 0, []),
        (10, -1, []),
        (10, None, []),
        (None, 3, []),
    ],
)
def test_the_warning_comes_once_after_the_turn_that_leaves_as_many(
    max_turns: int | None, warning: int | None, after: list[int]
):
    """LOOP-03, NUDGE-09: only with a cap, and only below it."""
    behavior = behavior_of(max_turns=max_turns, max_turns_warning=warning)
    assert list(warned(behavior)) == after


def test_a_boundary_that_is_reached_twice_warns_once():
    """LOOP-03: a run that was paused there."""
    behavior = behavior_of(max_turns=5, max_turns_warning=2)
    first = after_turn(WarningGiven(), behavior, turns=3, goes_on=True)
    assert first.nudge is not None
    assert after_turn(first.state, behavior, turns=3, goes_on=True).nudge is None


def test_a_run_that_ends_is_not_warned():
    """LOOP-03: a warning keeps no run alive."""
    behavior = behavior_of(max_turns=5, max_turns_warning=2)
    after = after_turn(WarningGiven(), behavior, turns=3, goes_on=False)
    assert (after.nudge, after.state) == (None, WarningGiven())


def test_the_standard_message_says_how_many_turns_are_left():
    """LOOP-04."""
    said = warned(behavior_of(max_turns=10, max_turns_warning=3))[7].said()
    assert said.startswith("3 turns are left of the 10")
    said = warned(behavior_of(max_turns=10, max_turns_warning=1))[9].said()
    assert said.startswith("One turn is left of the 10")


def test_a_message_of_ones_own_is_sent_as_it_is():
    """LOOP-04."""
    behavior = behavior_of(
        max_turns=10, max_turns_warning=3, max_turns_warning_message="{remaining}!"
    )
    assert warned(behavior)[7].said() == "{remaining}!"


def test_a_callable_is_given_the_cap_and_what_is_left():
    """LOOP-04."""
    message = {"callable": "hurry"}
    behavior = behavior_of(max_turns=10, max_turns_warning=3, max_turns_warning_message=message)
    wording = warned(behavior)[7]
    assert wording.callable == "hurry"
    assert wording.arguments == {"max_turns": 10, "remaining": 3}
    assert wording.said("now") == "now"
