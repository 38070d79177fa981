import math

import pytest

from tests.support.rule_calls import Calls, behavior_of, facts_of
from zidane_core.call_facts import CallFacts
from zidane_core.loop_options import RepeatGuard
from zidane_core.rules import guards
from zidane_core.rules.guards import GuardState, guard_mode, thresholds, window_size
from zidane_core.rules.verdicts import Abort, Allow, Block, Prior, Steer
from zidane_core.values import Json

SHELL: Json = {"command": "ls"}


def shells(calls: Calls, count: int) -> list[str]:
    return [calls.play("shell", SHELL) for _ in range(count)]


def asked(guard: RepeatGuard, prior: Prior | None, count: int, tool: str = "shell") -> list[str]:
    """The guard alone, asked about equal calls of which an earlier gate made something."""
    state, made = GuardState(), list[str]()
    facts = facts_of(guard, tool, SHELL)
    for at in range(count):
        guarded = guards.at_gate(state, guard, tool=tool, at=str(at), facts=facts, prior=prior)
        state = guarded.state
        made.append(type(guarded.verdict).__name__.lower())
    return made


def test_the_guard_is_off_unless_it_is_set():
    """GUARD-01, GUARD-06: `null` and `false` are off, `true` is on with all defaults."""
    assert behavior_of().repeat_guard is None
    assert behavior_of(repeat_guard=False).repeat_guard is None
    assert behavior_of(repeat_guard=True).repeat_guard == RepeatGuard()
    assert set(shells(Calls(behavior_of()), 50)) == {"allow"}


@pytest.mark.parametrize(
    ("fields", "tool", "expected"),
    [
        ({}, "shell", (4, 8)),
        ({}, "anything", (4, 8)),
        ({}, "read_file", (6, 12)),
        ({"block_threshold": 3}, "read_file", (3, 12)),
        ({"abort_threshold": 9}, "read_file", (6, 9)),
        ({"block_threshold": 1}, "shell", (2, 8)),
        ({"block_threshold": -5}, "shell", (2, 8)),
        ({"block_threshold": 10}, "shell", (10, 11)),
        ({"block_threshold": 4, "abort_threshold": 2}, "shell", (4, 5)),
        ({"abort_threshold": 5}, "read_file", (6, 7)),
        ({"abort_threshold": 0}, "shell", (4, None)),
        ({"abort_threshold": -1}, "read_file", (6, None)),
        ({"abort_threshold": math.inf}, "shell", (4, None)),
    ],
)
def test_thresholds_have_defaults_and_are_clamped(
    fields: dict[str, object], tool: str, expected: tuple[int, int | None]
):
    """GUARD-02, GUARD-03."""
    assert thresholds(RepeatGuard.model_validate(fields), tool) == expected


def test_equal_calls_in_a_row_are_blocked_from_the_fourth_and_the_eighth_aborts():
    """GUARD-01, GUARD-02, GUARD-03."""
    calls = Calls.guarded()
    assert shells(calls, 8) == ["allow"] * 3 + ["block"] * 4 + ["abort"]
    assert calls.actions == ["block"] * 4 + ["abort"]
    verdict = calls.last.verdict
    assert isinstance(verdict, Abort)
    assert verdict.wording.said().startswith("Blocked: ")
    assert verdict.error.details == {
        "reason": "repeat-guard",
        "rule": "chain",
        "tool": "shell",
        "count": 8,
        "limit": 8,
    }
    assert calls.last.events[0].fields == {
        "tool": "shell",
        "count": 8,
        "action": "abort",
        "rule": "chain",
    }


def test_reads_of_a_file_have_more_room():
    """GUARD-02, GUARD-03."""
    calls = Calls.guarded()
    made = [calls.play("read_file", {"path": "a"}) for _ in range(12)]
    assert made == ["allow"] * 5 + ["block"] * 6 + ["abort"]


def test_without_an_abort_threshold_calls_are_blocked_for_ever():
    """GUARD-03: the ceiling is a rule of its own."""
    calls = Calls.guarded(abort_threshold=0, global_ceiling=0)
    assert shells(calls, 40) == ["allow"] * 3 + ["block"] * 37


@pytest.mark.parametrize(
    "between", [("shell", {"command": "pwd"}), ("grep", {"pattern": "x"}), ("grep", SHELL)]
)
def test_any_other_call_in_between_breaks_the_chain(between: tuple[str, Json]):
    """GUARD-01: whether its tool is watched or not."""
    calls = Calls.guarded()
    assert shells(calls, 3) == ["allow"] * 3
    assert calls.play(*between) == "allow"
    assert shells(calls, 4) == ["allow"] * 3 + ["block"]


def test_the_same_input_of_another_tool_is_another_call():
    """GUARD-01."""
    calls = Calls.guarded(tools=["a", "b"])
    made = [calls.play(tool, {"x": 1}) for tool in ("a", "b") * 6]
    assert set(made) == {"allow"}


def test_steering_lets_the_call_run_and_adds_to_its_result_until_the_abort():
    """GUARD-04, GUARD-05."""
    calls = Calls.guarded(threshold_action="steer", steering_message="try {x} else")
    assert shells(calls, 8) == ["allow"] * 3 + ["steer"] * 4 + ["abort"]
    steered = calls.gated[3].verdict
    assert isinstance(steered, Steer)
    assert steered.wording.said() == "try {x} else"
    assert calls.actions == ["steer"] * 4 + ["abort"]


def test_a_block_says_blocked_and_the_standard_message_names_tool_and_count():
    """GUARD-04, GUARD-05."""
    calls = Calls.guarded()
    shells(calls, 4)
    verdict = calls.last.verdict
    assert isinstance(verdict, Block)
    said = verdict.wording.said()
    assert said.startswith("Blocked: shell has now been called 4 times")
    assert "Change the approach" in said


@pytest.mark.parametrize("name", ["steering_message", "block_reason"])
def test_a_message_is_sent_as_it_is_under_its_name_and_its_older_one(name: str):
    """GUARD-05."""
    calls = Calls.guarded(**{name: "no more"})
    shells(calls, 4)
    assert isinstance(calls.last.verdict, Block)
    assert calls.last.verdict.wording.said() == "Blocked: no more"


def test_a_callable_for_the_message_is_given_name_and_count():
    """GUARD-05: and where it has no answer the standard message stands."""
    calls = Calls.guarded(steering_message={"callable": "advise"})
    shells(calls, 5)
    verdict = calls.last.verdict
    assert isinstance(verdict, Block)
    assert verdict.wording.callable == "advise"
    assert verdict.wording.arguments == {"name": "shell", "count": 5}
    assert verdict.wording.said("go home") == "Blocked: go home"
    assert verdict.wording.said(None) == verdict.wording.said("") == verdict.wording.said(3)
    assert "5 times" in verdict.wording.said(None)


def test_only_shell_and_read_file_are_watched_by_default():
    """GUARD-06."""
    calls = Calls.guarded(global_ceiling=0)
    assert {calls.play("grep", {"pattern": "x"}) for _ in range(40)} == {"allow"}


def test_listed_tools_take_the_place_of_the_default_and_a_star_is_every_tool():
    """GUARD-06."""
    listed = Calls.guarded(tools=["grep"], global_ceiling=0)
    assert [listed.play("grep") for _ in range(4)][-1] == "block"
    assert set(shells(listed, 20)) == {"allow"}
    every = Calls.guarded(tools=["*"])
    assert [every.play("grep") for _ in range(4)][-1] == "block"


def test_an_empty_list_turns_chain_and_window_off_and_leaves_the_ceiling():
    """GUARD-06, GUARD-10, G-32."""
    calls = Calls.guarded(tools=[], mode="both")
    assert shells(calls, 12) == ["allow"] * 11 + ["abort"]
    assert shells(Calls.guarded(tools=[], global_ceiling=0), 40) == ["allow"] * 40


def test_a_call_that_the_normaliser_leaves_out_is_not_counted_and_breaks_the_chain():
    """GUARD-07."""
    calls = Calls.guarded(global_ceiling=0)
    shells(calls, 3)
    left_out = CallFacts(exact_key="e", guard_key=None)
    state = guards.at_gate(
        calls.state.guard, RepeatGuard(global_ceiling=0), tool="shell", at="x", facts=left_out
    ).state
    calls.state = calls.state.model_copy(update={"guard": state})
    assert shells(calls, 4) == ["allow"] * 3 + ["block"]


def test_calls_that_an_earlier_gate_refused_do_not_count_by_default():
    """GUARD-08."""
    assert asked(RepeatGuard(global_ceiling=0), "blocked", 40) == ["allow"] * 40


def test_counted_refusals_keep_their_reason_and_lead_to_the_abort_only():
    """GUARD-08, K-REPEAT-05."""
    guard = RepeatGuard(count_blocked_calls=True)
    assert asked(guard, "blocked", 8) == ["allow"] * 7 + ["abort"]


@pytest.mark.parametrize("count_blocked", [False, True])
def test_substituted_results_never_count(count_blocked: bool):
    """GUARD-08, GUARD-10: neither in the chain, nor in a window, nor for the ceiling."""
    guard = RepeatGuard(count_blocked_calls=count_blocked, mode="both")
    assert asked(guard, "replayed", 60) == ["allow"] * 60


@pytest.mark.parametrize("prior", ["blocked", "replayed"])
def test_an_equal_call_that_does_not_count_leaves_the_chain_and_another_breaks_it(prior: Prior):
    """GUARD-01, GUARD-08."""
    guard = RepeatGuard(global_ceiling=0)
    for command, fourth in (("ls", Block), ("pwd", Allow)):
        state = GuardState()
        for at in range(5):
            other = at == 3
            facts = facts_of(guard, "shell", {"command": command} if other else SHELL)
            guarded = guards.at_gate(
                state,
                guard,
                tool="shell",
                at=str(at),
                facts=facts,
                prior=prior if other else None,
            )
            state = guarded.state
        assert isinstance(guarded.verdict, fourth)  # pyright: ignore[reportPossiblyUnboundVariable] -- five rounds


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({}, "chain"),
        ({"window_size": 5}, "window"),
        ({"window_size": 1}, "chain"),
        ({"window_size": 5, "mode": "chain"}, "chain"),
        ({"mode": "window"}, "window"),
        ({"mode": "both"}, "both"),
    ],
)
def test_a_size_without_a_mode_means_window(fields: dict[str, object], mode: str):
    """GUARD-09."""
    assert guard_mode(RepeatGuard.model_validate(fields)) == mode


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({"mode": "window"}, 16),
        ({"window_size": 5}, 8),
        ({"window_size": 30}, 30),
        ({"window_size": 3, "abort_threshold": 0}, 4),
        ({"mode": "window", "abort_threshold": 0}, 8),
        ({"window_size": 10**9}, 256),
    ],
)
def test_a_window_has_a_default_size_and_reaches_its_thresholds(
    fields: dict[str, object], size: int
):
    """GUARD-09, G-45: clamped up to the abort threshold, or to the block threshold without one."""
    assert window_size(RepeatGuard.model_validate(fields), "shell") == size


def interleaved(calls: Calls, count: int) -> list[str]:
    made: list[str] = []
    for at in range(count):
        made.append(calls.play("shell", SHELL))
        calls.play("shell", {"command": f"other {at}"})
    return made


def test_a_window_counts_calls_with_others_in_between_and_a_chain_does_not():
    """GUARD-09."""
    assert interleaved(Calls.guarded(), 20) == ["allow"] * 20
    expected = ["allow"] * 3 + ["block"] * 4 + ["abort"]
    assert interleaved(Calls.guarded(window_size=40), 8) == expected
    assert interleaved(Calls.guarded(mode="both"), 8) == expected


def test_calls_that_left_the_window_no_longer_count():
    """GUARD-09: of the last eight calls of the tool every second one is this one."""
    assert interleaved(Calls.guarded(window_size=8), 30) == ["allow"] * 3 + ["block"] * 27


def test_each_tool_has_its_own_window():
    """GUARD-09."""
    calls = Calls.guarded(mode="window", tools=["shell", "grep"])
    for at in range(40):
        calls.play("grep", {"pattern": str(at)})
    assert shells(calls, 3) == ["allow"] * 3
    for at in range(40):
        calls.play("grep", {"pattern": str(at)})
    assert shells(calls, 1) == ["block"]


def test_both_trips_when_either_does():
    """GUARD-09."""
    assert shells(Calls.guarded(mode="both"), 4)[-1] == "block"
    assert shells(Calls.guarded(mode="window"), 4)[-1] == "block"


def test_the_ceiling_aborts_at_twelve_equal_calls_in_a_row_of_any_tool():
    """GUARD-10."""
    calls = Calls.guarded()
    made = [calls.play("grep", {"pattern": "x"}) for _ in range(12)]
    assert made == ["allow"] * 11 + ["abort"]
    assert calls.actions == ["abort"]
    assert isinstance(calls.last.verdict, Abort)
    assert calls.last.verdict.error.details["rule"] == "ceiling"


def test_the_ceiling_wants_exactly_equal_input():
    """GUARD-10, GUARD-07: what the normaliser makes equal is equal for the chain only."""
    calls = Calls.guarded(abort_threshold=0)
    made = [calls.play("shell", {"command": f"cd /{at} && ls"}) for at in range(20)]
    assert made == ["allow"] * 3 + ["block"] * 17


def test_the_ceiling_counts_blocked_calls():
    """GUARD-10."""
    assert asked(RepeatGuard(), "blocked", 12) == ["allow"] * 11 + ["abort"]


@pytest.mark.parametrize("off", [0, -1, math.inf, -math.inf, math.nan])
def test_a_ceiling_that_is_not_positive_or_not_finite_is_off(off: float):
    """GUARD-10."""
    calls = Calls.guarded(global_ceiling=off)
    assert {calls.play("grep") for _ in range(60)} == {"allow"}


def test_excluded_tools_have_no_ceiling_and_break_the_chain_of_others():
    """GUARD-10."""
    calls = Calls.guarded(global_ceiling_exclude=["wait_task"])
    assert {calls.play("wait_task", {"id": 1}) for _ in range(60)} == {"allow"}
    for _ in range(11):
        assert calls.play("grep") == "allow"
    calls.play("wait_task", {"id": 1})
    assert [calls.play("grep") for _ in range(12)] == ["allow"] * 11 + ["abort"]


def test_the_old_window_of_the_ceiling_is_read_and_does_nothing():
    """GUARD-10."""
    calls = Calls.guarded(global_ceiling_window=2)
    assert [calls.play("grep") for _ in range(12)] == ["allow"] * 11 + ["abort"]


def test_the_same_question_after_an_abort_has_the_same_answer():
    """GUARD-03: an abort leaves the state as it was."""
    calls = Calls.guarded(window_size=20)
    interleaved(calls, 8)
    before = calls.state
    assert [calls.play("shell", SHELL) for _ in range(5)] == ["abort"] * 5
    assert calls.state == before
