from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_messages import picture, tool_heavy, used, user
from zidane_core.behavior import AgentBehavior
from zidane_core.content import TextBlock, ToolResultBlock
from zidane_core.context.compaction import (
    DEFAULT_KEEP_TURNS,
    DEFAULT_THRESHOLD_BYTES,
    compacted,
    skips_tail,
    tail_frontier,
    tail_threshold,
)
from zidane_core.context.passes import repaired
from zidane_core.context_options import CompactSkip
from zidane_core.session import Message

MIB = 1024 * 1024


def floods(*sizes: int) -> tuple[Message, ...]:
    """One call and its result for each size in bytes."""
    return tuple(m for number, size in enumerate(sizes) for m in used(number, "x" * size))


def output_of(message: Message) -> str:
    block = message.content[0]
    assert isinstance(block, ToolResultBlock)
    assert isinstance(block.output, str)
    return block.output


def test_the_defaults_are_off_128_kib_and_the_newest_four_messages():
    """CMP-01, CMP-03, CMP-04."""
    behavior = AgentBehavior()
    assert behavior.compact_strategy == "off"
    assert behavior.compact_keep_turns == DEFAULT_KEEP_TURNS == 4
    assert behavior.compact_threshold == DEFAULT_THRESHOLD_BYTES == 128 * 1024
    assert behavior.compact_threshold_window_fraction is None
    assert behavior.compact_low_water_fraction is None
    assert behavior.compact_skip is None


@pytest.mark.parametrize(
    ("fraction", "window", "bytes_"),
    [
        (0.25, 1_000_000, 1_000_000),
        (0.25, 200_000, 200_000),
        (0.25, 128_000, DEFAULT_THRESHOLD_BYTES),
        (0.25, None, DEFAULT_THRESHOLD_BYTES),
        (None, 1_000_000, DEFAULT_THRESHOLD_BYTES),
    ],
)
def test_the_threshold_grows_with_the_window_and_never_shrinks(
    fraction: float | None, window: int | None, bytes_: int
):
    """CMP-05."""
    assert tail_threshold(window_fraction=fraction, window=window) == bytes_


@pytest.mark.parametrize(
    ("skip", "provider", "window", "is_skipped"),
    [
        (None, "anthropic", MIB, False),
        (CompactSkip(), "anthropic", None, True),
        (CompactSkip(providers=("anthropic",)), "anthropic", None, True),
        (CompactSkip(providers=("anthropic",)), "openai", None, False),
        (CompactSkip(providers=()), "openai", None, False),
        (CompactSkip(min_context_window=1000), "openai", 1000, True),
        (CompactSkip(min_context_window=1000), "openai", 999, False),
        (CompactSkip(min_context_window=1000), "openai", None, False),
        (CompactSkip(min_context_window=9, providers=("a",)), "a", 9, True),
        (CompactSkip(min_context_window=9, providers=("a",)), "b", 9, False),
    ],
)
def test_tail_is_left_out_when_provider_and_window_both_match(
    skip: CompactSkip | None, provider: str, window: int | None, is_skipped: bool
):
    """CMP-07."""
    assert skips_tail(skip, provider=provider, window=window) is is_skipped


def test_output_up_to_the_threshold_stays_and_one_byte_more_takes_the_oldest():
    """CMP-02, CMP-04."""
    exact, over = floods(400, 300, 300, 0, 0), floods(400, 301, 300, 0, 0)
    assert tail_frontier(exact, threshold_bytes=1_000) == 0
    frontier = tail_frontier(over, threshold_bytes=1_000)
    made = compacted(over, frontier)
    assert output_of(made[1]) == (
        "[Output of look left out to save room: 400 bytes. Call it again if you need it.]"
    )
    assert made[2:] == over[2:]
    assert made[0] == over[0]


def test_bytes_are_those_of_utf8_and_media_do_not_count():
    """CMP-04."""
    wide = tuple(m for number in range(4) for m in used(number, "é" * 200))
    assert tail_frontier(wide, threshold_bytes=1_600) == 0
    assert tail_frontier(wide, threshold_bytes=1_599) > 0
    shots = tuple(m for number in range(8) for m in used(number, (picture(number, 5_000),)))
    assert tail_frontier(shots, threshold_bytes=1_000) == 0


@pytest.mark.parametrize(("keep", "first_kept"), [(0, 12), (1, 10), (2, 10), (3, 8), (4, 8)])
def test_the_newest_messages_are_never_touched_whatever_they_hold(keep: int, first_kept: int):
    """CMP-03: the frontier stands behind whole steps only."""
    flood = floods(*[1_000] * 6)
    frontier = tail_frontier(flood, threshold_bytes=100, keep_turns=keep)
    assert frontier <= len(flood) - keep
    assert frontier == first_kept


def test_short_output_and_attachments_stay():
    """CMP-02."""
    mixed = (*used(1, "short"), *used(2, (TextBlock(text="x" * 500), picture(1))), user("go"))
    made = compacted(mixed, 4)
    assert made[1] == mixed[1]
    block = made[3].content[0]
    assert isinstance(block, ToolResultBlock)
    assert isinstance(block.output[0], TextBlock)
    assert block.output[0].text.startswith("[Output of look left out")
    assert block.output[1] == picture(1)


def test_without_a_low_water_mark_the_frontier_moves_by_quarters_of_the_threshold():
    """CMP-08: ten times as many turns as steps."""
    flood = floods(*[100] * 200)
    frontiers = [
        tail_frontier(flood[:length], threshold_bytes=4_000) for length in range(len(flood))
    ]
    steps = len(set(frontiers)) - 1
    assert steps == 16
    kept = 100 * (len(flood) - frontiers[-1]) // 2
    assert 3_000 <= kept <= 4_000


@pytest.mark.parametrize("low_water", [0.25, 0.5, 0.75])
def test_with_a_low_water_mark_a_step_trims_to_it_and_waits(low_water: float):
    """CMP-06: steps are (1 - f) x threshold of new output apart."""
    flood = floods(*[100] * 400)
    at = [
        tail_frontier(flood[:length], threshold_bytes=4_000, low_water=low_water)
        for length in range(len(flood) + 1)
    ]
    moves = [length for length in range(1, len(at)) if at[length] != at[length - 1]]
    gaps = {(later - earlier) // 2 * 100 for earlier, later in pairwise(moves)}
    assert min(gaps) >= (1 - low_water) * 4_000
    assert max(gaps) <= (1 - low_water) * 4_000 + 100
    kept = sum(len(output_of(m)) for m in flood[at[moves[0]] : moves[0]] if m.role == "user")
    assert kept <= low_water * 4_000


def test_a_low_water_step_leaves_the_newest_messages_alone():
    """CMP-06, CMP-03."""
    flood = floods(*[1_000] * 6)
    frontier = tail_frontier(flood, threshold_bytes=2_000, keep_turns=8, low_water=0.5)
    assert 0 < frontier <= 4


def test_a_low_water_step_waits_until_it_is_worth_a_rewrite():
    """CMP-06: what the newest messages hold must not make each turn take a step of its own."""
    flood = floods(*[100] * 100)
    frontiers = [
        tail_frontier(flood[:length], threshold_bytes=1_000, keep_turns=20, low_water=0.1)
        for length in range(len(flood))
    ]
    assert len(set(frontiers)) - 1 <= 10_000 / 900


@pytest.mark.parametrize("value", [0, 1, -0.5, 2.0])
def test_a_low_water_mark_outside_of_its_range_is_ignored(value: float):
    """CMP-06."""
    behavior = AgentBehavior.model_validate({"compact_low_water_fraction": value})
    assert behavior.compact_low_water_fraction is None


@given(
    tool_heavy(),
    st.integers(1, 800),
    st.integers(0, 6),
    st.sampled_from([None, 0.25, 0.5, 0.9]),
)
def test_the_frontier_never_goes_back_and_earlier_messages_change_only_when_it_moves(
    asked: tuple[Message, ...], threshold: int, keep: int, low_water: float | None
):
    """CACHE-04, CMP-06, CMP-08."""
    last, before = 0, ()
    for length in range(len(asked) + 1):
        frontier = tail_frontier(
            asked[:length], threshold_bytes=threshold, keep_turns=keep, low_water=low_water
        )
        assert last <= frontier <= max(0, length - keep)
        made = compacted(asked[:length], frontier)
        if frontier == last:
            assert made[: len(before)] == before
        last, before = frontier, made


@given(tool_heavy(), st.data())
def test_every_cut_position_leaves_each_call_with_its_result(
    asked: tuple[Message, ...], data: st.DataObject
):
    """CMP-02: only text of results goes, whichever frontier."""
    made = compacted(asked, data.draw(st.integers(0, len(asked))))
    assert repaired(made) == (made, ())
    assert [m.role for m in made] == [m.role for m in asked]
