from hypothesis import given
from hypothesis import strategies as st

from zidane_core.usage import (
    AgentStats,
    ChildRunStats,
    ModelUsage,
    RunTotals,
    TurnUsage,
    flatten_turns,
    stats_by_model,
)

counts = st.integers(0, 1000)
usages = st.builds(
    TurnUsage,
    input=counts,
    output=counts,
    cache_read=st.none() | counts,
    cache_creation=st.none() | counts,
    cost=st.none() | st.sampled_from([0.0, 0.25, 1.0]),
    model_id=st.sampled_from([None, "a", "b"]),
)


def tree(own: list[TurnUsage], *children: AgentStats) -> AgentStats:
    return AgentStats(
        turn_usage=tuple(own),
        turns=len(own),
        children=tuple(ChildRunStats(id=f"{n}", task="t", stats=s) for n, s in enumerate(children)),
    )


@given(st.lists(usages, max_size=8))
def test_totals_are_the_sums_of_the_turns(turns: list[TurnUsage]):
    """USE-05, USE-06: unreported cache counts as 0."""
    totals = RunTotals()
    for usage in turns:
        totals = totals.plus(usage)
    stats = totals.to_stats(elapsed_ms=7)
    assert stats.total_in == sum(u.input for u in turns)
    assert stats.total_out == sum(u.output for u in turns)
    assert stats.total_cache_read == sum(u.cache_read or 0 for u in turns)
    assert stats.total_cache_creation == sum(u.cache_creation or 0 for u in turns)
    assert (stats.turns, stats.elapsed) == (len(turns), 7)


def test_the_cost_is_absent_when_no_turn_reported_one_above_zero():
    """USE-06."""
    assert RunTotals().plus(TurnUsage()).to_stats(elapsed_ms=0).cost is None
    assert RunTotals().plus(TurnUsage(cost=0.0)).to_stats(elapsed_ms=0).cost is None
    assert RunTotals().plus(TurnUsage(cost=0.5)).to_stats(elapsed_ms=0).cost == 0.5


def test_none_is_not_reported_and_zero_is_zero():
    """USE-01: both survive packing."""
    usage = TurnUsage(cache_read=0)
    assert TurnUsage.unpacked(usage.packed()).cache_read == 0
    assert TurnUsage.unpacked(TurnUsage().packed()).cache_read is None


def test_a_trees_turns_come_parent_first_then_each_child_in_its_order():
    """USE-09."""
    named = [TurnUsage(input=number) for number in range(5)]
    child = tree([named[2]], tree([named[3]]))
    stats = tree(named[:2], child, tree([named[4]]))
    assert flatten_turns(stats) == tuple(named)
    assert flatten_turns(AgentStats()) == ()


@given(st.lists(usages, max_size=6), st.lists(usages, max_size=6))
def test_usage_by_model_adds_up_to_the_whole_tree(own: list[TurnUsage], below: list[TurnUsage]):
    """USE-10: every turn counts once, a missing model id as (unknown)."""
    by_model = stats_by_model(tree(own, tree(below)))
    turns = [*own, *below]
    assert set(by_model) == {u.model_id or "(unknown)" for u in turns}
    for name, used in by_model.items():
        mine = [u for u in turns if (u.model_id or "(unknown)") == name]
        assert used == ModelUsage(
            input=sum(u.input for u in mine),
            output=sum(u.output for u in mine),
            cache_read=sum(u.cache_read or 0 for u in mine),
            cache_creation=sum(u.cache_creation or 0 for u in mine),
            cost=sum(u.cost or 0.0 for u in mine),
            turns=len(mine),
        )


def test_a_childs_record_has_the_output_of_its_run():
    """OUT-03."""
    stats = AgentStats(output={"n": 5})
    child = ChildRunStats.of("r2", "count", stats, status="error", call_id="c", depth=1)
    assert child == ChildRunStats(
        id="r2",
        task="count",
        stats=stats,
        call_id="c",
        depth=1,
        status="error",
        output={"n": 5},
    )
    assert ChildRunStats.of("r3", "chat", AgentStats()).output is None


def test_adding_up_the_totals_of_children_of_every_level_counts_grandchildren_twice():
    """USE-11: each child's totals cover its own tree; flatten_turns counts each turn once."""
    grandchild = tree([TurnUsage(input=1)]).model_copy(update={"total_in": 1})
    child = tree([TurnUsage(input=2)], grandchild).model_copy(update={"total_in": 3})
    root = tree([TurnUsage(input=4)], child).model_copy(update={"total_in": 7})
    assert sum(turn.input for turn in flatten_turns(root)) == root.total_in == 7
    assert root.total_in != 4 + child.total_in + grandchild.total_in
