"""The passes after `context:transform`, taken together."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_messages import answer, call, result, tool_heavy, turn, used, user
from zidane_core.behavior import AgentBehavior
from zidane_core.context.passes import (
    WireSettings,
    WireSteps,
    declared_step,
    first_rewritten,
    passed,
    repaired,
    wire_passes,
    wire_settings,
)
from zidane_core.context.wire_view import WireFacts, view_of
from zidane_core.context_options import CompactSkip, MediaBudget
from zidane_core.session import Message

settings_of_any_kind = st.builds(
    WireSettings,
    stale_stubs=st.booleans(),
    media_keep_turns=st.sampled_from([None, None, 0, 2]),
    media_budget=st.sampled_from([None, MediaBudget(max_items=2), MediaBudget(max_bytes=300)]),
    tail_threshold_bytes=st.sampled_from([None, 200, 600]),
    tail_keep_turns=st.integers(0, 4),
    tail_low_water=st.sampled_from([None, 0.5]),
)


def test_with_all_features_off_the_same_tuple_comes_back():
    """LOOP-15, CACHE-04: the default."""
    messages = tuple(user(f"m{number}") for number in range(2_000))
    settings = wire_settings(AgentBehavior(), provider="anthropic", window=200_000, max_media=20)
    assert settings.are_off
    assert wire_passes(messages, settings) is messages


def test_a_behavior_says_which_passes_there_are():
    """CMP-01, CMP-05, CMP-07, FILE-07."""
    behavior = AgentBehavior.model_validate(
        {
            "elide_stale_reads": True,
            "compact_strategy": "tail",
            "compact_threshold_window_fraction": 0.25,
            "compact_keep_turns": 2,
            "compact_low_water_fraction": 0.5,
            "compact_skip": {"providers": ["anthropic"]},
        }
    )
    settings = wire_settings(behavior, provider="openai", window=1_000_000)
    assert settings == WireSettings(
        stale_stubs=True, tail_threshold_bytes=1_000_000, tail_keep_turns=2, tail_low_water=0.5
    )
    skipped = wire_settings(behavior, provider="anthropic", window=1_000_000)
    assert skipped.tail_threshold_bytes is None
    assert behavior.compact_skip == CompactSkip(providers=("anthropic",))
    for mode in ("off", "notice", False):
        other = AgentBehavior.model_validate({"elide_stale_reads": mode})
        assert wire_settings(other, provider="x").are_off
    named = AgentBehavior(compact_strategy="my_compactor")
    assert wire_settings(named, provider="x").are_off


def test_stale_reads_go_by_the_run_that_made_them():
    """FILE-07: the view knows the run of each call."""

    def path(run_of_edit: str) -> WireFacts:
        return view_of(
            [
                turn("t1", "assistant", call("r", "read_file", path="a"), run="one"),
                turn("t2", "user", result("r", "body"), run="one"),
                turn("t3", "assistant", call("e", "edit", path="a"), run=run_of_edit),
            ]
        ).facts

    messages = (
        user(),
        *(m for m in used(0, "x")),
        user(call("r", "read_file", path="a"), result("r", "body")),
        user(call("e", "edit", path="a"), result("e", "Edited a")),
    )
    settings = WireSettings(stale_stubs=True)
    assert passed(messages, settings, path("one")).steps.stale_reads == 1
    assert passed(messages, settings, path("two")).steps.stale_reads == 0


def test_the_tail_is_counted_as_the_hook_left_it_whatever_stubs_take_away():
    """CMP-04: so that the tail never goes back when a read becomes stale."""
    settings = WireSettings(stale_stubs=True, tail_threshold_bytes=500, tail_keep_turns=0)
    read, edit = call("r", "read_file", path="a"), call("e", "edit", path="a")
    before = (*used(1, "x" * 200), answer(read), user(result("r", "y" * 400)))
    after = (*before, answer(edit), user(result("e", "Edited a")))
    assert passed(before, settings).steps.tail == passed(after, settings).steps.tail > 0


def test_a_declared_step_is_one_that_changes_what_was_sent():
    """CACHE-04."""
    assert not declared_step(None, WireSteps(tail=4))
    assert not declared_step(WireSteps(tail=4), WireSteps(tail=4))
    assert declared_step(WireSteps(tail=4), WireSteps(tail=8))
    assert declared_step(WireSteps(), WireSteps(stale_reads=1))
    assert declared_step(WireSteps(), WireSteps(aged_media=1))


def test_the_first_rewritten_message_is_found():
    one, two, three = user("1"), user("2"), user("3")
    assert first_rewritten((one, two), (one, two, three)) is None
    assert first_rewritten((one, two), (one, user("2"), three)) is None
    assert first_rewritten((one, two), (one, three)) == 1
    assert first_rewritten((one, two), (one,)) == 1


def test_what_a_custom_compactor_stranded_is_repaired_and_told():
    """LOOP-15, SESS-11, CMP-01."""
    asked, told = used(1, "out")
    healthy = (user("go"), asked, told)
    assert repaired(healthy) == (healthy, ())
    mended, repairs = repaired((user("go"), told))
    assert mended == (user("go"),)
    assert [(r.kind, r.call_id) for r in repairs] == [("orphan_result", "c1")]


@given(tool_heavy(), settings_of_any_kind)
def test_together_they_change_earlier_messages_only_at_a_declared_step(
    asked: tuple[Message, ...], settings: WireSettings
):
    """CACHE-04, LOOP-15."""
    before = passed((), settings)
    for length in range(1, len(asked) + 1):
        after = passed(asked[:length], settings)
        assert after == passed(asked[:length], settings)
        assert len(after.messages) == length
        if not declared_step(before.steps, after.steps):
            assert first_rewritten(before.messages, after.messages) is None
        assert after.steps.stale_reads >= before.steps.stale_reads
        assert after.steps.tail >= before.steps.tail
        before = after


@given(tool_heavy(), settings_of_any_kind)
def test_no_pass_breaks_the_pairing_of_calls_and_results(
    asked: tuple[Message, ...], settings: WireSettings
):
    """LOOP-15, SESS-11."""
    made = wire_passes(asked, settings)
    assert repaired(made) == (made, ())
