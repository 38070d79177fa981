from collections.abc import Sequence

import pytest

from tests.support.rule_calls import behavior_of
from zidane_core.behavior import AgentBehavior, ThinkingOverrun
from zidane_core.call_facts import CallFacts, ResultFacts
from zidane_core.loop_options import (
    PROGRESS_COUNTS,
    ProgressNudgeKind,
    ProgressNudges,
    TextToolCallRescue,
    UnknownToolRecovery,
)
from zidane_core.rules import advice
from zidane_core.rules.advice import AdviceState, SettledTurn
from zidane_core.rules.nudges import (
    THINKING_OVERRUN,
    RecoveryNudges,
    UnknownCall,
    text_tool_call,
    thinking_overrun,
    unknown_tools,
)
from zidane_core.rules.progress import ProgressState, SettledCall, after_turn
from zidane_core.rules.verdicts import Nudge
from zidane_core.tools import ToolOutcome


def did(
    tool: str = "edit",
    *,
    outcome: ToolOutcome | None = None,
    error: bool = False,
    rejected: bool = False,
    reads: bool = False,
) -> SettledCall:
    result = ResultFacts(is_error=error or rejected, outcome=outcome, was_rejected=rejected)
    return SettledCall(tool, CallFacts(is_read_only=reads), result)


READ = did("read_file", reads=True)
FAILED = did(outcome="failed", error=True)
NOOP = did(outcome="noop")
REJECTED = did(rejected=True)
ERROR = did("shell", error=True)
EDITED = did(outcome="edited")
PLAIN = did("shell")

Turns = Sequence[Sequence[SettledCall]]


def played(options: ProgressNudges | None, turns: Turns) -> list[str | None]:
    """What each turn's nudge says."""
    state, said = ProgressState(), list[str | None]()
    for calls in turns:
        after = after_turn(state, options, calls)
        state = after.state
        said.append(None if after.nudge is None else after.nudge.wording.said())
    return said


def nudged_after(options: ProgressNudges | None, turns: Turns) -> list[int]:
    return [at + 1 for at, said in enumerate(played(options, turns)) if said is not None]


KINDS: list[tuple[ProgressNudgeKind, list[SettledCall], list[SettledCall]]] = [
    ("read_only_turns", [READ, READ], [READ, PLAIN]),
    ("read_only_turns", [READ], []),
    ("failed_mutations", [FAILED, READ], [EDITED, READ]),
    ("noop_mutations", [NOOP, READ], [EDITED, READ]),
    ("validation_rejects", [REJECTED], [PLAIN]),
    ("tool_errors", [ERROR, REJECTED], [PLAIN]),
    ("tool_errors", [FAILED], [READ]),
    ("single_call_turns", [EDITED], [EDITED, EDITED]),
    ("single_call_turns", [READ], []),
]


@pytest.mark.parametrize(("kind", "same", "other"), KINDS)
def test_each_kind_nudges_at_its_count_and_what_is_different_begins_anew(
    kind: ProgressNudgeKind, same: list[SettledCall], other: list[SettledCall]
):
    """NUDGE-06, NUDGE-07."""
    options = ProgressNudges.model_validate({kind: 3})
    assert nudged_after(options, [same] * 2) == []
    assert nudged_after(options, [same] * 3) == [3]
    assert nudged_after(options, [same, same, other, same, same]) == []
    assert nudged_after(options, [same, same, other, same, same, same]) == [6]
    assert nudged_after(options, [same] * 7) == [3, 6]


def test_calls_of_one_turn_count_each():
    """NUDGE-07: kinds that count calls do not wait for turns."""
    assert nudged_after(ProgressNudges(tool_errors=4), [[ERROR] * 4]) == [1]
    assert nudged_after(ProgressNudges(failed_mutations=3), [[FAILED] * 2, [FAILED]]) == [2]


def test_a_change_that_changed_nothing_does_not_mend_a_failed_one():
    """NUDGE-07."""
    assert nudged_after(ProgressNudges(failed_mutations=2), [[FAILED], [NOOP], [FAILED]]) == [3]


def test_results_that_the_loop_made_touch_no_count_of_calls():
    """NUDGE-07: a blocked or skipped call was no attempt."""
    blocked = SettledCall("edit")
    assert nudged_after(ProgressNudges(tool_errors=2), [[ERROR], [blocked], [ERROR]]) == [3]


def test_nudges_are_off_by_default_and_each_kind_unless_given():
    """NUDGE-06, G-42."""
    assert behavior_of().progress_nudges is None
    assert behavior_of(progress_nudges=False).progress_nudges is None
    assert nudged_after(None, [[ERROR]] * 50) == []
    assert nudged_after(ProgressNudges(), [[READ], [ERROR], [FAILED], [NOOP], [REJECTED]] * 9) == []


@pytest.mark.parametrize("off", [False, 0, -1, None])
def test_a_kind_may_be_off(off: object):
    """NUDGE-06."""
    made = behavior_of(progress_nudges={"tool_errors": off}).progress_nudges
    assert made == ProgressNudges()


def test_true_is_the_usual_count():
    """NUDGE-06, G-42."""
    assert PROGRESS_COUNTS == {
        "read_only_turns": 5,
        "failed_mutations": 3,
        "noop_mutations": 3,
        "validation_rejects": 3,
        "tool_errors": 4,
        "single_call_turns": 8,
    }
    assert behavior_of(progress_nudges={"tool_errors": True}).progress_nudges == ProgressNudges(
        tool_errors=4
    )
    every = behavior_of(progress_nudges=True).progress_nudges
    assert every == ProgressNudges.model_validate(PROGRESS_COUNTS)


def test_a_run_has_three_nudges_unless_told_otherwise():
    """NUDGE-06, G-42."""
    options = ProgressNudges(tool_errors=1)
    assert nudged_after(options, [[ERROR]] * 9) == [1, 2, 3]
    assert nudged_after(options.model_copy(update={"max_nudges": 1}), [[ERROR]] * 9) == [1]
    assert nudged_after(options.model_copy(update={"max_nudges": 0}), [[ERROR]] * 9) == []


def test_a_turn_has_one_nudge_and_the_other_kinds_keep_their_count():
    """NUDGE-06, NUDGE-07."""
    options = ProgressNudges(failed_mutations=2, tool_errors=2)
    said = played(options, [[FAILED], [FAILED], [READ, FAILED, ERROR]])
    assert said[0] is None
    assert said[1] is not None
    assert "last 2 changes failed" in said[1]
    assert said[2] is not None
    assert "last 2 calls failed" in said[2]


def test_tools_that_only_read_may_be_named():
    """NUDGE-06: then the tools' own flags do not count."""
    options = ProgressNudges(read_only_turns=2, read_only_tools=("mcp_x_get",))
    assert nudged_after(options, [[READ]] * 4) == []
    assert nudged_after(options, [[did("mcp_x_get")]] * 2) == [2]


def test_a_message_of_a_kind_is_text_or_a_callable():
    """NUDGE-08."""
    behavior = behavior_of(
        progress_nudges={
            "tool_errors": 1,
            "noop_mutations": 1,
            "messages": {"tool_errors": "{count}!", "noop_mutations": {"callable": "say"}},
        }
    )
    assert played(behavior.progress_nudges, [[ERROR]]) == ["{count}!"]
    nudge = after_turn(ProgressState(), behavior.progress_nudges, [NOOP]).nudge
    assert nudge is not None
    assert nudge.reason == "progress-nudge"
    assert nudge.wording.callable == "say"
    assert nudge.wording.arguments == {"kind": "noop_mutations", "count": 1}


def unknown(
    recovery: UnknownToolRecovery | None, *turns: Sequence[UnknownCall]
) -> list[list[Nudge]]:
    state, made = RecoveryNudges(), list[list[Nudge]]()
    for calls in turns:
        after = unknown_tools(state, recovery, tuple(calls))
        state = after.state
        made.append(list(after.nudges))
    return made


READ_ = UnknownCall("functions.read", ("read_file", "read_dir", "thread", "reader"))
OTHER = UnknownCall("zap")


def test_an_unknown_tool_is_answered_twice_in_a_run_with_three_names():
    """TOOL-12, NUDGE-09, G-43."""
    first, second, third = unknown(UnknownToolRecovery(), [READ_], [OTHER], [READ_])
    assert [nudge.reason for nudge in (*first, *second)] == ["unknown-tool"] * 2
    assert third == []
    said = first[0].wording.said()
    assert "'functions.read'" in said
    assert "read_file, read_dir, thread." in said
    assert "reader" not in said
    assert "None of yours" in second[0].wording.said()


def test_unknown_tools_of_one_turn_are_named_once_each_while_nudges_are_left():
    """TOOL-12."""
    (made,) = unknown(UnknownToolRecovery(), [READ_, READ_, OTHER, UnknownCall("third")])
    assert ["'functions.read'" in made[0].wording.said(), "'zap'" in made[1].wording.said()] == [
        True,
        True,
    ]
    assert len(made) == 2


def test_recovery_is_off_by_default():
    """TOOL-12."""
    assert behavior_of().unknown_tool_recovery is None
    assert behavior_of(unknown_tool_recovery=False).unknown_tool_recovery is None
    on = behavior_of(unknown_tool_recovery=True).unknown_tool_recovery
    assert on == UnknownToolRecovery(max_nudges=2, max_suggestions=3)
    assert unknown(None, [READ_]) == [[]]
    assert unknown(UnknownToolRecovery(max_nudges=0), [READ_]) == [[]]


def test_the_message_after_an_unknown_tool_is_text_or_a_callable():
    """TOOL-12."""
    text = UnknownToolRecovery(message="look again")
    assert unknown(text, [READ_])[0][0].wording.said() == "look again"
    asked = UnknownToolRecovery.model_validate({"message": {"callable": "say"}})
    wording = unknown(asked, [READ_])[0][0].wording
    names = ["read_file", "read_dir", "thread"]
    assert wording.arguments == {"called": "functions.read", "suggestions": names}


def rescued(rescue: TextToolCallRescue | None, *turns: tuple[str | None, bool]) -> list[bool]:
    state, made = RecoveryNudges(), list[bool]()
    for tool, has_calls in turns:
        after = text_tool_call(state, rescue, tool=tool, has_calls=has_calls)
        state = after.state
        assert all(nudge.reason == "text-tool-call" for nudge in after.nudges)
        made.append(bool(after.nudges))
    return made


WRITTEN = ("shell", False)


def test_a_call_written_as_text_is_answered_three_times_in_a_row():
    """TOOL-13, NUDGE-09: so that a model that always does it comes to an end."""
    rescue = TextToolCallRescue()
    assert rescued(rescue, *[WRITTEN] * 5) == [True] * 3 + [False] * 2
    assert rescued(rescue, *[WRITTEN] * 3, ("shell", True), WRITTEN)[-1] is True


def test_a_turn_with_real_calls_or_without_written_ones_is_not_answered():
    """TOOL-13."""
    assert rescued(TextToolCallRescue(), ("shell", True), (None, False)) == [False, False]


def test_rescue_is_off_by_default():
    """TOOL-13."""
    assert behavior_of().text_tool_call_rescue is None
    assert behavior_of(text_tool_call_rescue=False).text_tool_call_rescue is None
    assert behavior_of(text_tool_call_rescue=True).text_tool_call_rescue == TextToolCallRescue()
    assert rescued(None, WRITTEN) == [False]


@pytest.mark.parametrize(
    ("policy", "tokens", "said"),
    [
        (None, 10**6, None),
        (ThinkingOverrun(mode="off"), 10**6, None),
        (ThinkingOverrun(), 16_384, None),
        (ThinkingOverrun(), 16_385, THINKING_OVERRUN),
        (ThinkingOverrun(threshold_tokens=1, message="less"), 2, "less"),
    ],
)
def test_long_reasoning_is_answered_above_the_threshold(
    policy: ThinkingOverrun | None, tokens: int, said: str | None
):
    """NUDGE-10, THNK-10."""
    assert thinking_overrun(policy, tokens) == said


EVERYTHING = behavior_of(
    tool_output_budget=10,
    unknown_tool_recovery=True,
    text_tool_call_rescue=True,
    progress_nudges={"single_call_turns": 1},
    max_turns=3,
    max_turns_warning=2,
)
LOUD = SettledCall("zap", CallFacts(is_unknown=True), ResultFacts(is_error=True, text_bytes=11))


def after_loud_turn(behavior: AgentBehavior, turn: SettledTurn) -> advice.Advised:
    state = advice.after_call(AdviceState(), behavior, tool="zap", result=LOUD.result or fail())
    pending = Nudge.model_validate({"reason": "tool-budget", "wording": {"text": "b"}})
    return advice.after_turn(advice.with_pending(state, (pending,)), behavior, turn)


def fail() -> ResultFacts:
    raise AssertionError


def test_all_advice_follows_a_turn_in_one_order():
    """LOOP-16, CTL-12, NUDGE-01, NUDGE-04, NUDGE-06, NUDGE-09, LOOP-03."""
    advised = after_loud_turn(EVERYTHING, SettledTurn("t1", 1, (LOUD,)))
    assert [nudge.reason for nudge in advised.nudges] == [
        "tool-output-budget",
        "tool-budget",
        "unknown-tool",
        "progress-nudge",
        "turn-warning",
    ]
    assert [event.name for event in advised.events] == ["budget:exceeded"]
    assert advised.state.pending == ()


def test_where_the_run_ends_nothing_is_said_and_no_nudge_is_used_up():
    """LOOP-16: the event of a loud turn is kept."""
    for turn in (
        SettledTurn("t1", 1, (LOUD,), may_go_on=False),
        SettledTurn("t1", 1, (LOUD,), goes_on=False),
        SettledTurn("t1", 1, text_call="zap", may_go_on=False, goes_on=False),
    ):
        advised = after_loud_turn(EVERYTHING, turn)
        assert advised.nudges == ()
        assert len(advised.events) == 1
        assert advised.state.recovery == RecoveryNudges()
        assert advised.state.progress.nudges == 0
        assert not advised.state.warning.is_given


def test_only_a_call_written_as_text_keeps_a_run_alive():
    """LOOP-16, TOOL-13."""
    ending = SettledTurn("t1", 1, goes_on=False)
    assert advice.after_turn(AdviceState(), EVERYTHING, ending).nudges == ()
    written = SettledTurn("t1", 1, text_call="shell", goes_on=False)
    made = advice.after_turn(AdviceState(), EVERYTHING, written).nudges
    assert [nudge.reason for nudge in made] == ["text-tool-call", "turn-warning"]
