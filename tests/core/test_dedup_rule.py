import pytest

from tests.support.rule_calls import Calls, behavior_of
from zidane_core.call_facts import CallFacts, ResultFacts
from zidane_core.rules.dedup import (
    MAX_DEDUP_TOOLS,
    DedupCall,
    DedupState,
    after_call,
    at_gate,
    groups,
)
from zidane_core.rules.normalizing import dedup_key
from zidane_core.rules.verdicts import RecordedCall, Replay

OK = ResultFacts()
ERROR = ResultFacts(is_error=True)


def call(
    key: str | None = "a", *, tool: str = "q", turn: int = 1, index: int = 0, group: int = 0
) -> DedupCall:
    at = RecordedCall(turn_id=f"t{turn}", call_id=f"c{index}")
    return DedupCall(tool=tool, key=key, turn=turn, index=index, group=group, at=at)


def recorded(*calls: DedupCall) -> DedupState:
    state = DedupState()
    for one in calls:
        state = after_call(state, one, OK)
    return state


@pytest.mark.parametrize("answer", [None, "", 0, 1, b"x", ["x"], {"a": 1}, True])
def test_an_answer_that_is_no_text_skips_the_call(answer: object):
    """DEDUP-02: and is no error."""
    assert dedup_key("q", answer) is None


def test_a_text_is_a_key_of_its_tool():
    """DEDUP-02, DEDUP-07: the name is the canonical one, for MCP tools with its server."""
    assert dedup_key("q", "x") == dedup_key("q", "x")
    keys = {dedup_key(tool, text) for tool in ("q", "mcp_s_q") for text in ("x", "y")}
    assert len(keys) == 4
    assert None not in keys


def test_nothing_is_deduplicated_by_default():
    """DEDUP-02."""
    assert behavior_of().dedup_tools is None
    assert Calls(behavior_of()).play("q") == "allow"


def test_an_equal_call_is_answered_by_the_recorded_result():
    """DEDUP-03."""
    calls = Calls(behavior_of(dedup_tools={"q": "hasher"}))
    facts = CallFacts(dedup_key="k")
    assert [calls.play("q", facts=facts) for _ in range(4)] == ["allow"] + ["replay"] * 3
    assert calls.last.verdict == Replay(RecordedCall(turn_id="t1", call_id="c1.0"))


@pytest.mark.parametrize(
    ("known", "asked", "hits"),
    [
        (call("a"), call("a", turn=2), True),
        (call("a"), call("b", turn=2), False),
        (call("a"), call(None, turn=2), False),
        (call(None), call(None, turn=2), False),
        (call("a"), call("a", tool="other", turn=2), False),
    ],
)
def test_only_an_equal_key_of_the_same_tool_hits(known: DedupCall, asked: DedupCall, hits: bool):
    """DEDUP-02."""
    assert (at_gate(recorded(known), asked) is not None) is hits


def test_only_the_last_result_of_a_tool_is_kept():
    """DEDUP-04: A, B, A misses, and the other tool's result stays."""
    state = recorded(call("a"), call("b", turn=2), call("x", tool="other", turn=3))
    assert at_gate(state, call("a", turn=4)) is None
    assert at_gate(state, call("b", turn=4)) == RecordedCall(turn_id="t2", call_id="c0")
    assert at_gate(state, call("x", tool="other", turn=4)) is not None


def test_errors_are_never_recorded_and_leave_what_is_there():
    """DEDUP-05."""
    state = after_call(recorded(call("a")), call("b", turn=2), ERROR)
    assert state == recorded(call("a"))
    assert after_call(DedupState(), call("a"), ERROR) == DedupState()


def test_a_replay_is_not_recorded():
    """DEDUP-03: the reference stays the call that ran."""
    state = recorded(call("a"))
    assert after_call(state, call("a", turn=2), ResultFacts(was_replayed=True)) == state


@pytest.mark.parametrize(
    ("safe", "expected"),
    [
        ((), ()),
        ((True, True, True), (0, 0, 0)),
        ((False, False), (0, 1)),
        ((True, True, False, False, True, True, False), (0, 0, 1, 2, 3, 3, 4)),
        ((False, True, True), (0, 1, 1)),
    ],
)
def test_safe_neighbours_share_a_group_and_a_barrier_has_its_own(
    safe: tuple[bool, ...], expected: tuple[int, ...]
):
    """DEDUP-06."""
    assert groups(safe) == expected


def test_safe_siblings_never_answer_each_other():
    """DEDUP-06: they race, so that one may end before the other is asked about."""
    state = recorded(call("a", index=0))
    assert at_gate(state, call("a", index=1)) is None
    assert at_gate(state, call("a", turn=2)) is not None


def test_a_barrier_is_answered_by_the_call_before_it():
    """DEDUP-06."""
    state = recorded(call("a", index=0, group=0))
    assert at_gate(state, call("a", index=1, group=1)) is not None


@pytest.mark.parametrize("first", [0, 1])
def test_of_siblings_the_later_one_stays_whichever_ends_first(first: int):
    """DEDUP-06."""
    racing = [call("a", index=0), call("b", index=1)]
    state = recorded(racing[first], racing[1 - first])
    assert at_gate(state, call("b", turn=2)) == RecordedCall(turn_id="t1", call_id="c1")


def test_the_state_is_bounded():
    """DEDUP-04."""
    state = recorded(*(call(tool=f"t{n}", turn=n) for n in range(MAX_DEDUP_TOOLS + 9)))
    assert len(state.recorded) == MAX_DEDUP_TOOLS
    assert at_gate(state, call(tool="t8", turn=999)) is None
    assert at_gate(state, call(tool="t9", turn=999)) is not None
