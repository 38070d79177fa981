"""Repairs of a refused history: what is left out, how far back, and that the rest stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loop_driver import failure
from zidane_core.content import (
    ContentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from zidane_core.context.repairs import KEPT_CHARS, KEPT_PROMPT_CHARS, left_out, reach
from zidane_core.context.wire_view import WireView, view_of
from zidane_core.errors import HistoryRepairKind, ProviderFailure
from zidane_core.requests import RepairOrder
from zidane_core.rules.repair import after_refusal
from zidane_core.session import HistoryRepair, Message, Turn, TurnRole

THINKING = ThinkingBlock(text="hm", signature="s", signature_producer="anthropic")
IMAGE = ImageBlock(media_type="image/png", data="QUFB")
MARKER = TextBlock(text="[image: image/png, 4 b64 bytes]")


def turn(turn_id: str, role: TurnRole, *blocks: ContentBlock, **fields: object) -> Turn:
    return Turn.model_validate(
        {"id": turn_id, "role": role, "content": blocks, "created_at": 0, **fields}
    )


def asks(turn_id: str, text: str = "go on") -> Turn:
    return turn(turn_id, "user", TextBlock(text=text))


def works(turn_id: str, call_id: str, *before: ContentBlock, **arguments: str) -> Turn:
    call = ToolCallBlock(id=call_id, name="look", input=dict(arguments))
    return turn(turn_id, "assistant", *before, call)


def results(turn_id: str, call_id: str, output: str = "ok") -> Turn:
    return turn(turn_id, "user", ToolResultBlock(call_id=call_id, output=output))


def says(turn_id: str, *blocks: ContentBlock) -> Turn:
    return turn(turn_id, "assistant", *blocks, TextBlock(text=turn_id))


def blocks_of(messages: tuple[Message, ...]) -> list[ContentBlock]:
    return [block for message in messages for block in message.content]


# -- what is left out --------------------------------------------------------------------------


def test_each_kind_leaves_out_its_own_blocks_and_nothing_else():
    """K-ANTHROPIC-09, SESS-05."""
    use = ServerToolUseBlock(producer="anthropic", raw={"type": "server_tool_use"})
    found = ServerToolResultBlock(producer="anthropic", raw={"type": "web_search_tool_result"})
    text = TextBlock(text="kept")
    reasoning = (
        THINKING,
        RedactedThinkingBlock(data="x", signature_producer="anthropic"),
        ProviderReasoningBlock(producer="openai", details=({"id": "rs"},)),
    )
    whole = turn("t", "assistant", *reasoning, use, found, text, IMAGE)
    assert left_out("thinking", whole) == (use, found, text, IMAGE)
    assert left_out("media", whole) == (*reasoning, use, found, text, MARKER)
    assert left_out("history", whole) == (text, MARKER)


def test_images_inside_results_become_their_markers():
    result = ToolResultBlock(call_id="a", output=(TextBlock(text="see"), IMAGE))
    (made,) = left_out("media", turn("t", "user", result))
    assert made == ToolResultBlock(call_id="a", output=(TextBlock(text="see"), MARKER))


def test_long_keeps_the_head_of_results_arguments_and_texts():
    """LOOP-14."""
    long = "x" * 10_000
    call = ToolCallBlock(id="a", name="write", input={"path": "p", "lines": [long]})
    (made,) = left_out("long", turn("t", "assistant", call))
    assert isinstance(made, ToolCallBlock)
    assert made.input["path"] == "p"
    assert str(made.input["lines"]).count("x") == KEPT_CHARS
    (result,) = left_out("long", results("t", "a", long))
    assert isinstance(result, ToolResultBlock)
    assert isinstance(result.output, str)
    assert result.output.startswith("x" * KEPT_CHARS + "\n[9600 characters left out")


def test_long_keeps_more_of_what_a_user_wrote():
    (made,) = left_out("long", asks("t", "y" * 10_000))
    assert isinstance(made, TextBlock)
    assert made.text.count("y") == KEPT_PROMPT_CHARS


def test_a_text_that_would_hardly_shrink_stays_as_it_is():
    whole = results("t", "a", "z" * (KEPT_CHARS + 20))
    assert left_out("long", whole) == whole.content


# -- how far back ------------------------------------------------------------------------------


def test_thinking_goes_from_closed_turns_and_stays_in_the_open_tool_loop():
    """K-ANTHROPIC-09."""
    path = [asks("u1"), says("a1", THINKING), asks("u2"), works("a2", "c", THINKING)]
    path.append(results("r2", "c"))
    assert reach("thinking", 1, path) == "a1"


def test_thinking_goes_from_the_open_loop_when_no_closed_turn_has_any():
    path = [asks("u1"), works("a1", "c", THINKING), results("r1", "c")]
    assert reach("thinking", 1, path) == "r1"


def test_each_level_of_long_reaches_nearer_to_the_end():
    """LOOP-14."""
    path = [asks("u")]
    for number in range(8):
        path += [works(f"a{number}", f"c{number}"), results(f"r{number}", f"c{number}", "x" * 4000)]
    reached = [reach("long", level, path) for level in (1, 2, 3)]
    order = [turn.id for turn in path]
    assert None not in reached
    at = [order.index(str(turn_id)) for turn_id in reached]
    assert at == sorted(set(at))
    assert at[1] < len(path) - 1


def test_long_reaches_the_newest_result_only_at_the_last_level():
    path = [asks("u"), works("a", "c"), results("r", "c", "x" * 50_000)]
    assert [reach("long", level, path) for level in (1, 2, 3)] == [None, None, "r"]


def test_long_changes_nothing_where_all_is_short():
    path = [asks("u"), says("a"), asks("u2")]
    assert [reach("long", level, path) for level in (1, 2, 3)] == [None, None, None]


# -- the view ----------------------------------------------------------------------------------


def test_a_repair_that_a_turn_recorded_holds_for_all_later_requests():
    """K-ANTHROPIC-09: the repair is kept."""
    path = [asks("u1"), says("a1", THINKING), asks("u2")]
    repair = HistoryRepair(kind="thinking", through="a1")
    asked = view_of(path, [repair]).messages()
    assert THINKING not in blocks_of(asked)
    later = [*path, says("a2", THINKING).model_copy(update={"repairs": (repair,)}), asks("u3")]
    messages = view_of(later).messages()
    assert messages[:3] == asked
    assert blocks_of(messages).count(THINKING) == 1


def test_a_cached_view_is_built_again_for_a_new_repair_and_goes_on_after_it():
    path = [asks("u1"), says("a1", THINKING), asks("u2")]
    cached = view_of(path)
    assert THINKING in blocks_of(cached.messages())
    repair = HistoryRepair(kind="thinking", through="a1")
    mended = view_of(path, [repair], cached)
    assert mended is not cached
    path = [*path, says("a2").model_copy(update={"repairs": (repair,)})]
    assert view_of(path, (), mended) is mended
    assert mended.messages() == view_of(path).messages()


def test_a_repair_that_reaches_a_turn_off_the_path_is_void():
    path = [asks("u1"), says("a1", THINKING), asks("u2")]
    elsewhere = HistoryRepair(kind="thinking", through="gone")
    assert view_of(path, [elsewhere]).messages() == view_of(path).messages()


KINDS: list[HistoryRepairKind] = ["thinking", "media", "history", "long"]


@given(st.data())
def test_any_repair_leaves_every_call_with_its_result(data: st.DataObject):
    """LOOP-14, SESS-11: whatever is left out, calls and results stay paired."""
    path = [asks("u")]
    for number in range(data.draw(st.integers(1, 4))):
        before = data.draw(st.lists(st.sampled_from([THINKING, IMAGE]), max_size=2))
        text = "x" * data.draw(st.sampled_from([1, 3_000]))
        path.append(works(f"a{number}", f"c{number}", *before))
        path.append(results(f"r{number}", f"c{number}", text))
    kind = data.draw(st.sampled_from(KINDS))
    through = reach(kind, data.draw(st.integers(1, 3)), path)
    repairs = () if through is None else (HistoryRepair(kind=kind, through=through),)
    view = view_of(path, repairs)
    assert view.repairs() == ()
    found = blocks_of(view.messages())
    calls = [block.id for block in found if isinstance(block, ToolCallBlock)]
    assert calls == [block.call_id for block in found if isinstance(block, ToolResultBlock)]
    assert isinstance(view, WireView)


# -- the loop's rule ---------------------------------------------------------------------------


def refusal(kind: HistoryRepairKind | None) -> ProviderFailure:
    return failure("invalid", retryable=False).model_copy(update={"repair": kind})


@pytest.mark.parametrize("kind", ["thinking", "media", "history"])
def test_a_refused_history_is_mended_once_a_turn(kind: HistoryRepairKind):
    """K-ANTHROPIC-09: exactly one repair, and no loop."""
    orders = (RepairOrder(kind=kind),)
    assert after_refusal(refusal(kind), ()) == orders
    assert after_refusal(refusal("thinking"), orders) is None
    assert after_refusal(refusal("history"), orders) is None


def test_a_context_that_is_too_long_is_shortened_three_times():
    """LOOP-14."""
    too_long = failure("context_exceeded", retryable=False)
    orders: tuple[RepairOrder, ...] = ()
    for level in (1, 2, 3):
        deeper = (RepairOrder(kind="long", level=level),)
        assert after_refusal(too_long, orders) == deeper
        orders = deeper
    assert after_refusal(too_long, orders) is None
    both = after_refusal(refusal("thinking"), orders)
    assert both == (*orders, RepairOrder(kind="thinking"))


@pytest.mark.parametrize("kind", ["auth", "overloaded", "invalid", "quota"])
def test_other_failures_leave_the_history_alone(kind: str):
    assert after_refusal(failure(kind), ()) is None  # pyright: ignore[reportArgumentType] -- parametrized
