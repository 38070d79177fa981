"""Repeats as they come up in long runs, with the options that go past the rows' defaults."""

import itertools
import json

import pytest

from tests.support.rule_calls import Calls, behavior_of
from zidane_core.call_facts import CallFacts, ResultFacts
from zidane_core.presets import UNATTENDED
from zidane_core.rules.gate import GateState
from zidane_core.rules.verdicts import Abort
from zidane_core.values import Json


def unattended() -> Calls:
    return Calls(behavior_of(**UNATTENDED))


def rule(calls: Calls) -> object:
    assert isinstance(calls.last.verdict, Abort)
    return calls.last.verdict.error.details["rule"]


CYCLES: list[list[tuple[str, Json]]] = [
    [("grep", {"pattern": "x"}), ("read_file", {"path": "a"})],
    [("grep", {"pattern": "x"}), ("read_file", {"path": "a"}), ("shell", {"command": "ls"})],
    [("t", {"n": n}) for n in range(8)],
]


@pytest.mark.parametrize("cycle", CYCLES, ids=["two", "three", "eight"])
@pytest.mark.parametrize("carried", [False, True])
def test_a_cycle_is_noted_in_its_third_round_and_stopped_in_its_fourth(
    cycle: list[tuple[str, Json]], carried: bool
):
    """K-REPEAT-01: the count is in the state, so it survives a restart."""
    calls = Calls.guarded(cycles=True, results=True)
    made: list[str] = []
    for tool, arguments in itertools.chain.from_iterable([cycle] * 4):
        if carried:
            calls.state = GateState.unpacked(json.loads(json.dumps(calls.state.packed())))
        made.append(calls.play(tool, arguments, result=tool))
    length = len(cycle)
    assert made[: 3 * length - 1] == ["allow"] * (3 * length - 1)
    assert made[3 * length - 1 :] == ["block"] * length + ["abort"]
    assert rule(calls) == "cycle"
    assert calls.last.events[0].fields["count"] == 4


def test_without_the_option_a_cycle_goes_on():
    """GUARD-01, K-REPEAT-01: the row's default compares neighbours only."""
    calls = Calls.guarded()
    made = [calls.play(tool, {}) for tool in ("grep", "shell") * 40]
    assert set(made) == {"allow"}


def test_a_cycle_whose_results_move_on_is_work():
    """K-REPEAT-01, K-REPEAT-02: edit, test, edit, test."""
    calls = unattended()
    for n in range(11):
        assert calls.play("edit", {"path": "a"}, result=f"edited {n}") == "allow"
        assert calls.play("shell", {"command": "make test"}, result=f"{n} failed") == "allow"


def test_a_chain_is_no_cycle():
    """K-REPEAT-01: equal calls stay under the thresholds of the chain."""
    calls = Calls.guarded(cycles=True)
    made = [calls.play("read_file", {"path": "a"}) for _ in range(12)]
    assert made == ["allow"] * 5 + ["block"] * 6 + ["abort"]
    assert rule(calls) == "chain"


def test_a_poll_that_goes_to_and_fro_is_no_cycle():
    """K-REPEAT-02."""
    calls = unattended()
    for n in range(16):
        assert calls.play("status", {}, result=f"worker {n % 2}") == "allow"


def test_polling_goes_on_while_the_result_moves_on():
    """K-REPEAT-02: twelve equal calls, each with another result, then something else."""
    calls = unattended()
    made = [calls.play("shell", {"command": "cat progress"}, result=f"{n}") for n in range(12)]
    assert made == ["allow"] * 12
    assert calls.play("shell", {"command": "cat result"}) == "allow"
    assert calls.actions == []


def test_polling_that_stands_still_is_stopped():
    """K-REPEAT-02: name, input and result together decide."""
    calls = unattended()
    moving = [calls.play("shell", {"command": "cat p"}, result=f"{n}") for n in range(5)]
    still = [calls.play("shell", {"command": "cat p"}, result="stuck") for _ in range(8)]
    assert moving == ["allow"] * 5
    assert still == ["allow"] * 3 + ["block"] * 4 + ["abort"]


def test_without_the_option_results_do_not_matter():
    """GUARD-01, K-REPEAT-02."""
    calls = Calls.guarded()
    made = [calls.play("shell", {"command": "cat p"}, result=f"{n}") for n in range(4)]
    assert made[-1] == "block"


def test_results_may_come_late_and_in_any_order():
    """K-REPEAT-02: calls of one turn count as equal until their results say otherwise."""
    for order in itertools.permutations(range(3)):
        calls = Calls.guarded(results=True)
        turn = [calls.ask("shell", {"command": "x"}, index=index) for index in range(3)]
        assert [verdict for _, verdict in turn] == ["allow"] * 3
        for index in order:
            calls.settle(turn[index][0], ResultFacts(result_hash=str(index)))
        made = [calls.play("shell", {"command": "x"}, result="y") for _ in range(4)]
        assert made == ["allow"] * 3 + ["block"]


def test_equal_calls_of_one_turn_are_blocked_before_any_result_is_there():
    """GUARD-02, K-REPEAT-02."""
    calls = Calls.guarded(results=True)
    made = [calls.ask("shell", {"command": "x"}, index=index)[1] for index in range(6)]
    assert made == ["allow"] * 3 + ["block"] * 3


def test_in_a_window_only_equal_results_count():
    """GUARD-09, K-REPEAT-02."""
    calls = Calls.guarded(mode="window", results=True)
    for n in range(10):
        assert calls.play("shell", {"command": "cat p"}, result=f"{n}") == "allow"
        assert calls.play("shell", {"command": f"other {n}"}) == "allow"
    still = [calls.play("shell", {"command": "cat p"}, result="stuck") for _ in range(4)]
    assert still == ["allow"] * 3 + ["block"]


def test_a_changing_clock_does_not_hide_a_loop():
    """K-REPEAT-03: told at three quarters of the looser limit, stopped at it, with a reason."""
    calls = unattended()
    made = [
        calls.play("shell", {"command": "date +%N; ls missing"}, result=f"{n}", is_error=True)
        for n in range(24)
    ]
    assert made == ["allow"] * 17 + ["steer"] * 6 + ["abort"]
    assert rule(calls) == "loose"
    assert isinstance(calls.last.verdict, Abort)
    assert calls.last.verdict.error.to_dict()["type"] == "AgentAbortedError"


def test_a_changing_clock_does_not_hide_a_cycle():
    """K-REPEAT-01, K-REPEAT-03."""
    calls = unattended()
    made = [calls.play(tool, {}, result=f"{n}") for n in range(24) for tool in ("a", "b")]
    assert made[-1] == "abort"
    assert "abort" not in made[:-1]
    assert rule(calls) == "loose"


@pytest.mark.parametrize("off", [None, 0, -1])
def test_the_loose_limit_may_be_off(off: int | None):
    """K-REPEAT-03."""
    calls = Calls.guarded(results=True, loose_limit=off)
    assert {calls.play("shell", {"command": "x"}, result=f"{n}") for n in range(99)} == {"allow"}


INVALID: list[tuple[str, list[Json | str], CallFacts]] = [
    ("write_file", [{}], CallFacts(is_invalid=True)),
    ("write_file", ['{"path":', '{"path":"a'], CallFacts(is_invalid=True)),
    ("functions.read", [{"path": "a"}, {"path": "b"}], CallFacts(is_unknown=True)),
]


@pytest.mark.parametrize(("tool", "inputs", "facts"), INVALID, ids=["empty", "broken", "unknown"])
def test_calls_that_never_run_end_at_the_limit_too(
    tool: str, inputs: list[Json | str], facts: CallFacts
):
    """K-REPEAT-04: broken JSON and unknown tools whatever their arguments."""
    calls = Calls.guarded(count_invalid=True)
    forms = itertools.cycle(inputs)
    made = [calls.play(tool, next(forms), facts=facts, is_error=True) for _ in range(8)]
    assert made == ["allow"] * 3 + ["block"] * 4 + ["abort"]


@pytest.mark.parametrize(("tool", "inputs", "facts"), INVALID, ids=["empty", "broken", "unknown"])
def test_without_the_option_calls_that_never_run_are_like_any_other(
    tool: str, inputs: list[Json | str], facts: CallFacts
):
    """GUARD-06, K-REPEAT-04: not watched, as their tools are not listed."""
    calls = Calls.guarded()
    forms = itertools.cycle(inputs)
    made = [calls.play(tool, next(forms), facts=facts, is_error=True) for _ in range(8)]
    assert set(made) == {"allow"}


def test_other_bad_arguments_are_another_call():
    """K-REPEAT-04: a model that tries to mend its call is not repeating itself."""
    calls = Calls.guarded(count_invalid=True)
    facts = CallFacts(is_invalid=True)
    assert {calls.play("write_file", {"n": n}, facts=facts) for n in range(9)} == {"allow"}


def test_refused_calls_are_stopped_at_the_limit():
    """K-REPEAT-05: a rule of the host that always refuses gives equal error results."""
    calls = unattended()
    made = [
        calls.play("shell", {"command": "rm"}, result="Blocked: not allowed", is_error=True)
        for _ in range(8)
    ]
    assert made == ["allow"] * 3 + ["block"] * 4 + ["abort"]


def test_calls_that_a_budget_refuses_are_stopped_at_the_limit():
    """K-REPEAT-05, GUARD-08, NUDGE-01: the budget's reason stands until the guard aborts."""
    calls = unattended()
    calls.behavior = behavior_of(
        **UNATTENDED, tool_budgets={"shell": {"max": 0, "on_exceed": "block"}}
    )
    made = [calls.play("shell", {"command": "rm"}) for _ in range(8)]
    assert made == ["block"] * 7 + ["abort"]
    assert calls.actions == ["abort"]


def test_replays_in_a_cycle_are_stopped():
    """K-REPEAT-01, DEDUP-03: the model was given each result before."""
    calls = unattended()
    calls.behavior = behavior_of(**UNATTENDED, dedup_tools={"q": "h"})
    made = [
        calls.play(tool, {}, facts=CallFacts(dedup_key=tool if tool == "q" else None))
        for tool in ("q", "grep") * 4
    ]
    assert made[2] == "replay"
    assert made[-3:] == ["block", "block", "abort"]
