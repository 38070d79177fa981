import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zidane_core.errors import UsageError
from zidane_core.tool_state import (
    DEFAULT_MAX_VALUE_BYTES,
    MAX_OPS_BYTES,
    MAX_SNAPSHOT_BYTES,
    ToolStateController,
    ToolStateOp,
    ToolStateView,
    apply_ops,
)


def put(key: str, value: int | None) -> ToolStateOp:
    return ToolStateOp(key=key, value=value)


def gone(key: str) -> ToolStateOp:
    return ToolStateOp(key=key, delete=True)


keys = st.sampled_from(["a", "b", "c"])
ops = st.one_of(st.builds(put, keys, st.none() | st.integers()), st.builds(gone, keys))


@given(st.lists(ops), st.dictionaries(keys, st.integers()))
def test_the_same_ops_again_change_nothing_more(made: list[ToolStateOp], start: dict[str, int]):
    """STATE-05: commits are idempotent."""
    once = apply_ops(start, made)
    assert apply_ops(once, made) == once


@given(st.lists(ops))
def test_ops_survive_json(made: list[ToolStateOp]):
    """STATE-01, DUR-04: null is a value, deletion is a flag."""
    again = [ToolStateOp.unpacked(json.loads(json.dumps(op.packed()))) for op in made]
    assert again == made


def test_the_last_commit_wins():
    """STATE-14."""
    assert apply_ops({}, [ToolStateOp(key="a", value=1), ToolStateOp(key="a", value=2)]) == {"a": 2}


def test_a_view_sees_the_snapshot_under_its_own_writes():
    """STATE-02."""
    view = ToolStateView({"b": 1, "d": 4})
    view.set("a", 2)
    view.set("b", None)
    view.delete("d")
    assert (view.get("a"), view.get("b", 9), view.get("d"), view.get("d", 7)) == (2, None, None, 7)
    assert (view.has("b"), view.has("d")) == (True, False)
    assert view.keys() == ("a", "b")


def test_none_is_json_null_and_no_deletion():
    """STATE-03."""
    view = ToolStateView({})
    view.set("a", None)
    assert view.has("a")


def test_deleting_what_is_not_there_is_no_error():
    view = ToolStateView({})
    view.delete("a")
    assert view.keys() == ()


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), b"x"])
def test_only_json_can_be_set(value: object):
    """STATE-03: at stage time, and nothing is staged then."""
    view = ToolStateView({})
    with pytest.raises(UsageError, match="'a' takes JSON values only"):
        view.set("a", value)  # pyright: ignore[reportArgumentType] -- the wrong type is the test
    assert view.pending() == ()


def test_a_value_may_have_64_kib_of_json_and_not_a_byte_more():
    """STATE-04: quotes count."""
    view = ToolStateView({})
    view.set("a", "x" * (DEFAULT_MAX_VALUE_BYTES - 2))
    with pytest.raises(UsageError, match=f"{DEFAULT_MAX_VALUE_BYTES + 1} bytes"):
        view.set("b", "x" * (DEFAULT_MAX_VALUE_BYTES - 1))
    assert ToolStateView({}, max_value_bytes=3).get("x") is None
    with pytest.raises(UsageError):
        ToolStateView({}, max_value_bytes=3).set("x", "ab")


def test_a_calls_ops_and_the_state_as_a_whole_are_bounded():
    """STATE-04: so that the state always fits a continue-as-new."""
    view = ToolStateView({})
    big = "x" * 60_000
    for number in range(MAX_OPS_BYTES // 60_100):
        view.set(f"k{number}", big)
    with pytest.raises(UsageError, match="this call's tool state"):
        view.set("last", big)
    full = {f"k{number}": big for number in range(MAX_SNAPSHOT_BYTES // 60_100)}
    with pytest.raises(UsageError, match="the run's tool state"):
        ToolStateView(full).set("last", big)


def test_staged_ops_can_be_read_restored_and_dropped():
    """STATE-10."""
    view = ToolStateView({})
    view.set("a", 1)
    assert view.pending() == view.pending() == (ToolStateOp(key="a", value=1),)
    view.restore([ToolStateOp(key="b", value=2)])
    assert view.keys() == ("b",)
    view.clear()
    assert view.keys() == ()


def test_calls_stage_alone_and_share_what_is_committed():
    """STATE-07, STATE-08, STATE-12."""
    controller = ToolStateController({"seen": 1})
    one, two = controller.begin("one"), controller.begin("two")
    assert controller.begin("one") is one
    one.set("a", 1)
    assert not two.has("a")
    assert controller.pending("one") == (ToolStateOp(key="a", value=1),)
    assert controller.commit("one") == (ToolStateOp(key="a", value=1),)
    assert controller.snapshot() == {"seen": 1, "a": 1}
    assert controller.pending("one") == ()
    assert controller.begin("three").get("a") == 1


def test_a_discarded_call_leaves_nothing():
    """STATE-07."""
    controller = ToolStateController()
    controller.begin("one").set("a", 1)
    controller.discard("one")
    assert controller.commit("one") == ()
    assert controller.snapshot() == {}
