"""Summaries: when one is due, where the path is cut, and what the view begins with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_messages import call, result, turn
from zidane_core.content import CompactSummaryBlock, TextBlock
from zidane_core.context.summaries import (
    CompactionPlan,
    compacted_by,
    files_to_restore,
    plan_compaction,
    resolve_window,
    restored_file,
    restored_skill,
    safe_cuts,
    should_compact,
    summary_turn,
)
from zidane_core.context.wire_view import WireView, view_of
from zidane_core.context_options import AutoCompactConfig, read_auto_compact
from zidane_core.session import Turn
from zidane_core.usage import TurnUsage


def batch_path() -> list[Turn]:
    """K-CONTEXT-01: one turn's results stand in turns of their own; then the run goes on."""
    return [
        turn("t0", "user", "do it"),
        turn("t1", "assistant", call("A"), call("B"), call("C")),
        turn("t2", "user", result("A")),
        turn("t3", "user", result("B")),
        turn("t4", "user", result("C")),
        turn("t5", "assistant", "and", call("D")),
        turn("t6", "user", result("D")),
        turn("t7", "assistant", "done"),
        turn("t8", "user", "more"),
        turn("t9", "assistant", call("E")),
        turn("t10", "user", result("E")),
    ]


def run_path() -> list[Turn]:
    """As our own runs leave it: all results of a turn in one."""
    path = [turn("p", "user", "do it")]
    for number in range(6):
        ids = [f"c{number}-{at}" for at in range(1 + number % 3)]
        path.append(turn(f"a{number}", "assistant", f"fact {number}", *map(call, ids)))
        path.append(turn(f"r{number}", "user", *map(result, ids)))
    return path


def plan_of(path: list[Turn], keep: int = 2, wanted: int | None = None) -> CompactionPlan:
    plan = plan_compaction(path, keep_turns=keep, wanted=wanted)
    assert plan is not None
    return plan


def summed_up(path: list[Turn], plan: CompactionPlan, name: str = "s", text: str = "sum") -> Turn:
    return summary_turn(
        plan,
        turn_id=name,
        parent_id=path[-1].id,
        run_id="r1",
        created_at=7,
        summary=text,
        model="scripted:x",
    )


def texts(view: WireView) -> list[str]:
    return [
        block.summary if isinstance(block, CompactSummaryBlock) else getattr(block, "text", "")
        for message in view.messages()
        for block in message.content
    ]


@pytest.mark.parametrize(
    ("usage", "window", "is_due"),
    [
        (TurnUsage(input=849), 1_000, False),
        (TurnUsage(input=850), 1_000, True),
        (TurnUsage(input=50, cache_read=700, cache_creation=100), 1_000, True),
        (TurnUsage(input=50, output=900), 1_000, False),
        (TurnUsage(input=10_000), None, False),
    ],
)
def test_a_summary_is_due_at_85_percent_of_the_window_by_measured_input(
    usage: TurnUsage, window: int | None, is_due: bool
):
    """CMP-09: inert without a window."""
    assert should_compact(usage, window) is is_due


def test_automatic_summaries_are_off_and_true_means_all_defaults():
    """CMP-09."""
    on = AutoCompactConfig.model_validate(read_auto_compact(True))
    assert on == AutoCompactConfig()
    assert (on.threshold, on.restore_files > 0, on.restore_skills) == (0.85, True, True)
    assert read_auto_compact(False) is None
    assert read_auto_compact({"threshold": 0.5}) == {"threshold": 0.5}


def test_the_window_is_the_first_that_is_known_of_four():
    """CMP-10, G-14: auto-compaction looks at its own first."""
    assert resolve_window(context_window=1, auto_compact=2, target=3, provider=4) == 1
    assert resolve_window(auto_compact=2, target=3, provider=4) == 2
    assert resolve_window(target=3, provider=4) == 3
    assert resolve_window(provider=4) == 4
    assert resolve_window() is None
    assert resolve_window(context_window=1, auto_compact=2, target=3, for_auto_compact=True) == 2
    assert resolve_window(context_window=1, provider=4, for_auto_compact=True) == 1


@pytest.mark.parametrize("wanted", range(1, 11))
def test_at_every_wanted_cut_the_next_safe_place_is_taken_and_nothing_behind_it_is_lost(
    wanted: int,
):
    """K-CONTEXT-01."""
    path = batch_path()
    plan = plan_of(path, wanted=wanted)
    cut = len(plan.replaced)
    assert [t.id for t in (*plan.replaced, *plan.kept)] == [t.id for t in path]
    assert cut in safe_cuts(path)
    assert cut >= wanted or (wanted == 10 and cut == 9)
    view = view_of([*path, summed_up(path, plan)])
    assert view.messages()[0].content[0] == CompactSummaryBlock(
        summary="sum",
        replaces_turn_ids=tuple(t.id for t in plan.replaced),
        model="scripted:x",
        compacted_at=7,
    )
    # Results in several turns are repaired with or without a summary: no cut adds a repair.
    assert set(view.repairs()) <= set(view_of(path).repairs())


def test_no_cut_is_between_a_call_and_its_result_nor_in_a_batch_nor_behind_a_pause():
    """K-CONTEXT-01."""
    assert safe_cuts(batch_path()) == (1, 5, 7, 8, 9)
    late = [*batch_path()[:3], turn("u", "user", "hm"), *batch_path()[3:]]
    assert set(safe_cuts(late)) & {2, 3, 4, 5} == set()
    orphan = [
        turn("t0", "user", "go"),
        turn("t1", "assistant", "a"),
        turn("t2", "user", result("z")),
    ]
    assert safe_cuts(orphan) == (1,)
    paused = [turn("t0", "user", "go"), turn("t1", "assistant", "a"), turn("t2", "assistant", "b")]
    assert safe_cuts(paused) == (1,)


def test_a_call_that_nobody_ever_answered_does_not_stop_later_cuts():
    path = [
        turn("t0", "user", "go"),
        turn("t1", "assistant", call("lost")),
        turn("t2", "user", "hello?"),
        turn("t3", "assistant", "yes"),
        turn("t4", "user", "next"),
    ]
    assert safe_cuts(path) == (1, 3, 4)


def test_open_calls_stay_behind_the_cut_so_that_their_results_find_them():
    """K-CONTEXT-03."""
    path = [*run_path(), turn("a9", "assistant", call("x"), call("y"))]
    plan = plan_of(path, keep=1)
    assert plan.kept[-1].id == "a9"
    after = [
        *path,
        summed_up(path, plan),
        turn("r9", "user", result("x", "one"), result("y", "two")),
    ]
    view = view_of(after)
    assert view.repairs() == ()
    assert view.messages()[-1].content == (result("x", "one"), result("y", "two"))
    steered = [*path, turn("u", "user", "hurry")]
    assert plan_of(steered, keep=1).kept[0].id == "a9"


@pytest.mark.parametrize("keep", [1, 2, 4, 6])
def test_the_newest_turns_stay_as_they_are(keep: int):
    """CMP-09: the view is the summary and the preserved tail."""
    path = run_path()
    plan = plan_of(path, keep=keep)
    before, after = view_of(path).messages(), view_of([*path, summed_up(path, plan)]).messages()
    assert len(plan.kept) >= min(keep, 2)
    assert after[1:] == before[len(before) - len(plan.kept) :]


def test_a_tail_that_is_too_large_is_cut_shorter():
    path = [
        *run_path(),
        turn("big", "assistant", call("b")),
        turn("out", "user", result("b", "x" * 900)),
        turn("end", "assistant", "so", call("e")),
        turn("last", "user", result("e", "small")),
    ]
    whole = plan_compaction(path, keep_turns=4)
    fitting = plan_compaction(path, keep_turns=4, max_tail_bytes=500)
    assert whole is not None
    assert fitting is not None
    assert [t.id for t in whole.kept] == ["big", "out", "end", "last"]
    assert [t.id for t in fitting.kept] == ["end", "last"]
    last = plan_compaction(path, keep_turns=4, max_tail_bytes=1)
    assert last is not None
    assert [t.id for t in last.kept] == ["end", "last"]


def test_there_is_no_plan_when_nothing_can_be_gained():
    """CMP-09: so that one compaction never calls for the next."""
    path = run_path()
    assert plan_compaction(path, keep_turns=len(path)) is None
    assert plan_compaction([], keep_turns=1) is None
    assert plan_compaction([turn("t", "user", "go")], keep_turns=0) is None
    done = [*path, summed_up(path, plan_of(path, keep=4))]
    assert plan_compaction(done, keep_turns=4) is None


def test_a_second_and_a_third_summary_leave_one_at_the_start_with_the_first_ones_facts():
    """K-CONTEXT-02, CMP-11: the first summary stands inside the tail that the second keeps."""
    path = run_path()[:9]
    first = plan_of(path, wanted=5)
    path = [*path, summed_up(path, first, "s1", "FACT-1"), *run_path()[9:11]]
    second = plan_of(path, wanted=2)
    assert second.earlier == "FACT-1"
    assert second.replaces_turn_ids[0] == "s1"
    path = [*path, summed_up(path, second, "s2", "FACT-1 FACT-2"), *run_path()[11:]]
    third = plan_of(path, keep=2)
    assert third.earlier == "FACT-1 FACT-2"
    path.append(summed_up(path, third, "s3", "FACT-1 FACT-2 FACT-3"))
    for length in range(1, len(path) + 1):
        view = view_of(path[:length])
        blocks = [b for m in view.messages() for b in m.content]
        summaries = [b for b in blocks if isinstance(b, CompactSummaryBlock)]
        latest = compacted_by(path[:length]).summary
        assert len(summaries) == (latest is not None)
        if latest is not None:
            assert blocks[0] == latest.content[0]
        assert [r for r in view.repairs() if r.kind != "missing_result"] == []
    view = view_of(path)
    assert texts(view)[0] == "FACT-1 FACT-2 FACT-3"
    assert view.assistant_turns == 6
    assert view.messages()[1:] == view_of(run_path()).messages()[-len(third.kept) :]


def test_a_summary_of_a_dead_attempt_or_of_another_branch_counts_nothing():
    """CTL-11."""
    path = run_path()
    dead = summed_up(path, plan_of(path)).model_copy(update={"aborted": True})
    assert view_of([*path, dead]).messages() == view_of(path).messages()


def test_a_summary_that_is_empty_or_replaces_nothing_moves_and_hides_nothing():
    """CMP-11."""
    path = run_path()
    blank = summed_up(path, plan_of(path), text=" \n")
    assert view_of([*path, blank]).messages()[:-1] == view_of(path).messages()
    loose = turn("s", "user", CompactSummaryBlock(summary="by the way"))
    assert view_of([*path, loose]).messages()[-1].content == loose.content


def test_what_else_a_summarys_turn_holds_stays_in_its_place():
    """CMP-11: also when the summary is the model's own, as servers make them."""
    path = run_path()
    made = summed_up(path, plan_of(path))
    told = made.model_copy(update={"content": (*made.content, TextBlock(text="now this"))})
    view = view_of([*path, told, turn("end", "assistant", "yes")])
    assert view.messages()[0].content == made.content
    assert [m.content for m in view.messages()[-2:]] == [
        (TextBlock(text="now this"),),
        (TextBlock(text="yes"),),
    ]
    again = plan_of([*path, told, turn("end", "assistant", "yes")], keep=1)
    assert again.replaces_turn_ids == tuple(t.id for t in again.replaced)
    assert again.replaces_turn_ids[-1] == "s"
    short = plan_of([*path, told, turn("end", "assistant", "yes")], keep=2)
    assert "s" not in short.replaces_turn_ids


@given(st.data())
def test_a_view_built_turn_by_turn_through_summaries_is_the_one_built_at_once(data: st.DataObject):
    """K-TEMPORAL-16, K-CONTEXT-02: whatever was cut when."""
    path, rest = list[Turn](), run_path()
    warm, number = WireView(), 0
    while rest:
        taken = data.draw(st.integers(1, len(rest)))
        path, rest = [*path, *rest[:taken]], rest[taken:]
        warm = view_of(path, (), warm)
        plan = plan_compaction(path, keep_turns=data.draw(st.integers(1, 5)))
        if plan is not None and data.draw(st.booleans()):
            number += 1
            path = [*path, summed_up(path, plan, f"s{number}", f"sum {number}")]
            warm = view_of(path, (), warm)
        cold = view_of(path)
        assert warm.messages() == cold.messages()
        assert warm.repairs() == cold.repairs()
        assert warm.facts == cold.facts
        assert [r for r in cold.repairs() if r.kind != "missing_result"] == []


def test_files_read_last_are_restored_unless_the_tail_shows_them():
    """CMP-09."""
    path = [
        turn("p", "user", "go"),
        turn("a1", "assistant", call("1", "read_file", path="a"), call("2", "read_file", path="b")),
        turn("r1", "user", result("1"), result("2")),
        turn("a2", "assistant", call("3", "write_file", path="c"), call("4", "shell", path="d")),
        turn("r2", "user", result("3", outcome="created"), result("4")),
        turn("a3", "assistant", call("5", "read_file", path="a")),
        turn("r3", "user", result("5")),
        turn("a4", "assistant", call("6", "read_file", path="b")),
        turn("r4", "user", result("6")),
    ]
    plan = plan_of(path, keep=2)
    assert files_to_restore(plan, 5) == ("a", "c")
    assert files_to_restore(plan, 1) == ("a",)
    assert files_to_restore(plan, 0) == ()


def test_restored_texts_stand_behind_the_summary_and_are_clipped():
    """CMP-09, SKILL-05."""
    restored = (restored_file("a.py", "é" * 50, 21), restored_skill("pdf", "How to", 100))
    path = run_path()
    plan = plan_of(path)
    made = summary_turn(
        plan,
        turn_id="s",
        parent_id="r5",
        run_id="r1",
        created_at=1,
        summary="sum",
        restored=restored,
    )
    first, *others = view_of([*path, made]).messages()[0].content
    assert isinstance(first, CompactSummaryBlock)
    assert others == list(restored)
    assert restored[0].text == (
        "<file name='a.py'>\n" + "é" * 10 + "\n[The rest is left out.]\n</file>"
    )
    assert restored[1] == TextBlock(
        text="<skill name='pdf'>\nHow to\n</skill>", system_note="restored"
    )
