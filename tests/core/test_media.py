"""Media that ages off the wire."""

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_messages import answer, picture, result, tool_heavy, turn, used, user
from zidane_core.behavior import AgentBehavior, resolve_behavior
from zidane_core.content import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
)
from zidane_core.context.image_size import image_size
from zidane_core.context.media import (
    LARGE_IMAGE_KEEP_TURNS,
    age_by_budget,
    age_by_request,
    age_by_turns,
    attachment,
    handles_of,
    media_of,
    parse_handle,
)
from zidane_core.context.passes import WireSettings, passed, smaller, wire_settings
from zidane_core.context.wire_view import view_of
from zidane_core.context_options import MediaBudget
from zidane_core.session import Message

MIB = 1024 * 1024


def shots(count: int, size: int = 0, edge: int = 10) -> tuple[Message, ...]:
    """One message with a picture after the other."""
    return tuple(user(picture(number, size, edge)) for number in range(count))


def shown(messages: tuple[Message, ...]) -> list[int]:
    """The places of the messages that still hold media."""
    return [at for at, m in enumerate(messages) if any(media_of(m.content))]


def test_both_are_off_by_default_and_then_nothing_ages():
    """MED-01, MED-02."""
    behavior = AgentBehavior()
    assert (behavior.media_keep_turns, behavior.media_budget) == (None, None)
    messages = shots(300)
    assert passed(messages, wire_settings(behavior, provider="x")).messages is messages


@pytest.mark.parametrize(
    ("count", "keep", "first_kept"),
    [(9, 0, 9), (1, 0, 1), (4, 4, 0), (7, 4, 0), (8, 4, 4), (11, 4, 4), (12, 4, 8), (5, 1, 4)],
)
def test_media_older_than_the_newest_messages_ages_in_chunks(
    count: int, keep: int, first_kept: int
):
    """MED-01: 0 ages all of it."""
    aged = age_by_turns(shots(count), keep, {})
    assert shown(aged) == list(range(first_kept, count))


def test_the_marker_says_what_it_was_and_how_to_see_it_again():
    """MED-01: the handle leads back to the bytes, in results too."""
    first, second = picture(1), picture(2).model_copy(update={"name": "b.png"})
    stored = turn("t1", "user", "see", first, result("c", (TextBlock(text="x"), second)))
    handles = dict(handles_of(stored))
    aged = age_by_turns((user("see", first), user(result("c", (second,)))), 0, handles)
    marker = aged[0].content[1]
    assert marker == TextBlock(
        text="[image, image/png, left out to save room. To see it again, call read_file with path "
        "attachment://t1/1]"
    )
    nested = aged[1].content[0]
    assert isinstance(nested, ToolResultBlock)
    assert isinstance(nested.output[0], TextBlock)
    assert "image 'b.png', image/png" in nested.output[0].text
    assert "attachment://t1/2]" in nested.output[0].text
    assert parse_handle("attachment://t1/2") == ("t1", 2)
    assert attachment(stored, 2) is second
    assert attachment(stored, 3) is None
    for text in ("t1/2", "attachment://t1", "attachment://t1/x", "attachment:///1"):
        assert parse_handle(text) is None


def test_the_view_knows_the_handles_of_its_path_whatever_a_hook_does_to_messages():
    """MED-01."""
    path = [turn("t1", "user", picture(1)), turn("t2", "user", picture(2), picture(1))]
    view = view_of(path)
    copied = tuple(Message.model_validate(m.model_dump(mode="json")) for m in view.messages())
    made = passed(copied, WireSettings(media_keep_turns=0), view.facts).messages
    texts = [b.text for m in made for b in m.content if isinstance(b, TextBlock)]
    assert [text[-18:-1] for text in texts] == [f"attachment://t{n}/1" for n in (1, 2, 1)]


@pytest.mark.parametrize(
    ("count", "aged"), [(80, 0), (81, 40), (120, 40), (121, 80), (160, 80), (161, 120)]
)
def test_past_the_items_the_oldest_age_in_steps_of_half_the_limit(count: int, aged: int):
    """MED-02: the profiles' budget."""
    assert MediaBudget() == MediaBudget(max_items=80, max_bytes=20 * MIB)
    made = age_by_budget(shots(count), MediaBudget(), {})
    assert shown(made) == list(range(aged, count))


@pytest.mark.parametrize(("count", "aged"), [(10, 0), (11, 5), (15, 5), (16, 10)])
def test_past_the_bytes_the_oldest_age_in_steps_of_half_the_limit(count: int, aged: int):
    """MED-02."""
    made = age_by_budget(shots(count, 100), MediaBudget(max_bytes=1_000), {})
    assert shown(made) == list(range(aged, count))


def test_the_newest_stays_unless_it_alone_is_over_the_limit():
    """MED-02, K-CONTEXT-04."""
    fitting = (user(picture(1, 300)), user(picture(2, 900)))
    assert shown(age_by_budget(fitting, MediaBudget(max_bytes=1_000), {})) == [1]
    too_large = (user(picture(1, 300)), user(picture(2, 1_100)))
    assert shown(age_by_budget(too_large, MediaBudget(max_bytes=1_000), {})) == []


def test_sound_counts_by_bytes_and_raw_text_and_refs_by_none():
    """MED-02."""
    sound = AudioBlock(media_type="audio/mp3", data="A" * 600)
    ref = ImageBlock(media_type="image/png", ref="host:1")
    text = DocumentBlock(media_type="text/plain", data="x" * 5_000, encoding="text")
    messages = (user(sound), user(ref), user(text), user(sound))
    assert shown(age_by_budget(messages, MediaBudget(max_items=1), {})) == [0, 1, 3]
    assert shown(age_by_budget(messages, MediaBudget(max_bytes=1_000), {})) == [1, 3]


@pytest.mark.parametrize(("count", "first_kept"), [(15, 0), (16, 8), (23, 8), (24, 16)])
def test_images_with_a_long_edge_keep_a_window_of_eight_messages(count: int, first_kept: int):
    """MED-03."""
    assert LARGE_IMAGE_KEEP_TURNS == 8
    made = age_by_budget(shots(count, edge=2_001), MediaBudget(), {})
    assert shown(made) == list(range(first_kept, count))
    assert shown(age_by_budget(shots(count, edge=2_000), MediaBudget(), {})) == list(range(count))


@pytest.mark.parametrize(("own", "items"), [(None, 40), (20, 10), (100, 40)])
def test_the_providers_own_limit_lowers_that_of_the_budget(own: int | None, items: int):
    """MED-04: Bedrock takes 20."""
    messages = shots(81 if own != 20 else 21)
    behavior = AgentBehavior(media_budget=MediaBudget())
    settings = wire_settings(behavior, provider="x", max_media=own)
    made = passed(messages, settings)
    assert made.steps.aged_media == items


def test_keep_turns_beat_the_budget_of_the_same_layer_and_a_runs_pair_the_agents():
    """MED-05."""
    both = AgentBehavior(media_keep_turns=3, media_budget=MediaBudget())
    settings = wire_settings(both, provider="x")
    assert (settings.media_keep_turns, settings.media_budget) == (3, None)
    agent = AgentBehavior(media_keep_turns=3)
    run = resolve_behavior({"media_budget": {"max_items": 5}}, agent)
    assert run.media_keep_turns is None
    assert run.media_budget == MediaBudget(max_items=5)
    other = resolve_behavior({"media_keep_turns": 2}, AgentBehavior(media_budget=MediaBudget()))
    assert (other.media_keep_turns, other.media_budget) == (2, None)
    assert resolve_behavior({"max_turns": 1}, agent).media_keep_turns == 3


def test_forty_two_screenshots_stay_under_32_mb_and_the_newest_are_kept():
    """K-CONTEXT-04: each an 800 KB PNG, 1.07 MB of base64, out of a tool."""
    limit, size = 32 * 1_000_000, 1_066_668
    path = [turn("p", "user", "look")]
    for number in range(42):
        asked, told = used(number, (picture(number, size),))
        path.append(turn(f"a{number}", "assistant", *asked.content))
        path.append(turn(f"r{number}", "user", *told.content))
    view = view_of(path)
    settings = wire_settings(
        AgentBehavior(), provider="x", max_request_bytes=limit, view_size=view.size
    )
    made = passed(view.messages(), settings, view.facts).messages
    assert sum(len(m.model_dump_json()) for m in made) < limit
    assert shown(made) == list(range(32, 85, 2))
    again = passed(view.messages(), smaller(settings, view.size), view.facts).messages
    assert sum(len(m.model_dump_json()) for m in again) < limit // 2
    assert shown(again)[-1] == 84


def test_a_small_view_is_not_even_measured():
    settings = wire_settings(
        AgentBehavior(), provider="x", max_request_bytes=32_000_000, view_size=1_000_000
    )
    assert settings.are_off


def test_text_counts_for_the_size_of_a_request_and_stays():
    """K-CONTEXT-04."""
    messages = (user(picture(1, 400)), answer("x" * 900), user(picture(2, 200)))
    made = age_by_request(messages, 1_400, {})
    assert shown(made) == [2]
    assert made[1:] == messages[1:]
    assert age_by_request(messages, 1_500, {}) is messages


@given(
    tool_heavy(),
    st.one_of(
        st.builds(WireSettings, media_keep_turns=st.integers(0, 6)),
        st.builds(
            WireSettings,
            media_budget=st.builds(
                MediaBudget, max_items=st.integers(0, 5), max_bytes=st.integers(0, 900)
            ),
        ),
        st.builds(WireSettings, max_request_bytes=st.integers(1, 3_000)),
    ),
)
def test_the_aged_part_only_grows_and_earlier_messages_change_only_when_it_does(
    asked: tuple[Message, ...], settings: WireSettings
):
    """CACHE-04, MED-01, MED-02."""
    kept, before = set[int](), passed((), settings)
    for length in range(1, len(asked) + 1):
        after = passed(asked[:length], settings)
        still = set(shown(after.messages))
        assert still <= kept | {length - 1}
        if after.steps == before.steps:
            assert after.messages[: length - 1] == before.messages
        kept, before = still, after


JPEG = (
    b"\xff\xd8\xff\xe1\x27\x12"
    + b"\0" * 10_000
    + b"\xff\xff\xc4\0\x04\0\0\xff\xc2\0\x11\x08"
    + struct.pack(">HH", 30, 40)
)


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 7, 9), (7, 9)),
        (b"GIF89a" + struct.pack("<HH", 7, 9), (7, 9)),
        (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x06\0\0\x08\0\0", (7, 9)),
        (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 6 | 8 << 14), (7, 9)),
        (b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 7, 9), (7, 9)),
        (JPEG, (40, 30)),
        (JPEG[:-9], None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"RIFF\0\0\0\0WEBPWHAT", None),
        (b"BM", None),
        (b"", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_head(raw: bytes, size: tuple[int, int] | None):
    """MED-03."""
    assert image_size(base64.b64encode(raw).decode()) == size


@pytest.mark.parametrize("data", ["!", "A", "é"])
def test_what_is_not_base64_has_no_size(data: str):
    assert image_size(data) is None
