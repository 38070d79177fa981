import json

import pytest

from tests.support.rule_calls import Calls, behavior_of
from zidane_core.call_facts import BudgetVerdict, CallFacts
from zidane_core.loop_options import ToolBudget
from zidane_core.rules import tool_budgets
from zidane_core.rules.tool_budgets import ToolBudgetState, counts_for_callables, to_be_decided
from zidane_core.rules.verdicts import Block
from zidane_core.values import Json


def budgeted(budget: object, **others: object) -> Calls:
    return Calls(behavior_of(tool_budgets={"shell": budget}, **others))


def event_fields(calls: Calls) -> list[Json]:
    events = [event for gated in calls.gated for event in gated.events]
    assert {event.name for event in events} <= {"tool-budget:exceeded"}
    return [event.fields for event in events]


def test_a_tool_without_a_budget_is_not_counted():
    """NUDGE-01."""
    calls = budgeted(1)
    assert {calls.play("grep", {"n": n}) for n in range(9)} == {"allow"}
    assert calls.state.budgets == ToolBudgetState()


def test_a_number_is_short_for_the_most_calls():
    """NUDGE-01."""
    assert behavior_of(tool_budgets={"shell": 3}).tool_budgets == {"shell": ToolBudget(max=3)}


@pytest.mark.parametrize("bad", [True, -1, {"max": -1}, {"max": 1, "on_exceed": "stop"}, {}])
def test_a_budget_that_makes_no_sense_is_refused(bad: object):
    """NUDGE-01."""
    with pytest.raises(Exception, match=r"behavior\.tool_budgets\.shell"):
        behavior_of(tool_budgets={"shell": bad})


def test_past_the_budget_the_call_runs_and_one_nudge_follows_its_turn():
    """NUDGE-01, G-46: `steer` is the default, once per tool and run."""
    calls = budgeted(2)
    assert [calls.play("shell", {"n": n}) for n in range(6)] == ["allow"] * 6
    nudges = [nudge for gated in calls.gated for nudge in gated.nudges]
    assert [len(gated.nudges) for gated in calls.gated] == [0, 0, 1, 0, 0, 0]
    assert nudges[0].reason == "tool-budget"
    assert "more than 2 times" in nudges[0].wording.said()
    expected = {"tool": "shell", "count": 2, "max": 2, "mode": "steer", "call_id": "c3.0"}
    assert event_fields(calls) == [expected]


def test_past_a_blocking_budget_every_call_is_refused_with_an_event():
    """NUDGE-01, G-46."""
    calls = budgeted({"max": 2, "on_exceed": "block"})
    assert [calls.play("shell", {"n": n}) for n in range(5)] == ["allow"] * 2 + ["block"] * 3
    assert isinstance(calls.last.verdict, Block)
    assert calls.last.verdict.wording.said().startswith("Blocked: shell may be called 2 times")
    assert [fields["mode"] for fields in event_fields(calls)] == ["block"] * 3
    assert [fields["count"] for fields in event_fields(calls)] == [2] * 3


def test_a_budget_of_none_meets_the_first_call():
    """NUDGE-01."""
    assert budgeted({"max": 0, "on_exceed": "block"}).play("shell") == "block"


def test_calls_of_one_turn_are_counted_in_order_before_any_ran():
    """NUDGE-03: four at once against two."""
    calls = budgeted({"max": 2, "on_exceed": "block"})
    made = [calls.ask("shell", {"n": index}, index=index)[1] for index in range(4)]
    assert made == ["allow", "allow", "block", "block"]


def test_replays_count_and_are_refused_like_any_other_call():
    """NUDGE-02, DEDUP-03."""
    calls = budgeted({"max": 2, "on_exceed": "block"}, dedup_tools={"shell": "hasher"})
    facts = CallFacts(dedup_key="k")
    made = [calls.play("shell", facts=facts) for _ in range(3)]
    assert made == ["allow", "replay", "block"]


def test_calls_that_an_earlier_gate_blocked_do_not_count():
    """NUDGE-02."""
    state, budgets = ToolBudgetState(), {"shell": ToolBudget(max=1)}
    for _ in range(5):
        asked = tool_budgets.at_gate(state, budgets, tool="shell", call_id="c", prior="blocked")
        state = asked.state
        assert (asked.event, asked.nudge) == (None, None)
    assert state == ToolBudgetState()


CALLABLE = {"max": 1, "on_exceed": {"callable": "decide"}}


@pytest.mark.parametrize(
    ("said", "verdict", "text"),
    [
        (BudgetVerdict(mode="block", message="enough"), "block", "Blocked: enough"),
        (BudgetVerdict(mode="block"), "block", "Blocked: shell may be called once"),
        (BudgetVerdict(mode="steer", message="easy"), "allow", "easy"),
        (None, "allow", "You have now called shell more than once"),
    ],
)
def test_a_callable_decides_mode_and_message(said: BudgetVerdict | None, verdict: str, text: str):
    """NUDGE-01: without an answer the call is steered."""
    calls = budgeted(CALLABLE)
    calls.play("shell", {"n": 0})
    assert calls.play("shell", {"n": 1}, facts=CallFacts(budget=said)) == verdict
    gated = calls.last
    spoken = gated.verdict.wording if isinstance(gated.verdict, Block) else gated.nudges[0].wording
    assert spoken.said().startswith(text)


def test_a_callable_is_asked_about_the_calls_past_its_budget_only():
    """NUDGE-01: with the count of the run and of the turn so far."""
    budgets = {"shell": ToolBudget.model_validate(CALLABLE), "grep": ToolBudget(max=0)}
    tools = ("shell", "grep", "shell", "other", "shell")
    assert to_be_decided({}, budgets, tools) == {2: 1, 4: 2}
    assert to_be_decided({"shell": 3}, budgets, tools) == {0: 3, 2: 4, 4: 5}
    assert to_be_decided({}, None, tools) == {}
    state = ToolBudgetState(counts={"shell": 3, "grep": 2})
    assert counts_for_callables(state, budgets) == {"shell": 3}
    assert counts_for_callables(state, None) == {}


def test_counts_survive_a_round_trip():
    """NUDGE-02, DUR-12."""
    calls = budgeted({"max": 1, "on_exceed": "block"})
    calls.play("shell")
    packed = json.loads(json.dumps(calls.state.budgets.packed()))
    assert ToolBudgetState.unpacked(packed) == calls.state.budgets
    assert calls.play("shell") == "block"
