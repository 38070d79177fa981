import pytest
from hypothesis import given
from hypothesis import strategies as st

from zidane_core.content import ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.context.pairing import Pairing, Repair, check_repairs
from zidane_core.errors import AgentToolPairingError
from zidane_core.session import Message
from zidane_core.tools import SYNTHETIC_TOOL_RESULT_PLACEHOLDER


def says(text: str = "hm") -> TextBlock:
    return TextBlock(text=text)


def call(call_id: str) -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name="look", input={})


def result(call_id: str, output: str = "ok") -> ToolResultBlock:
    return ToolResultBlock(call_id=call_id, output=output)


def user(*blocks: ContentBlock) -> Message:
    return Message(role="user", content=blocks)


def model(*blocks: ContentBlock) -> Message:
    return Message(role="assistant", content=blocks)


def mended(*messages: Message) -> tuple[list[Message], list[Repair]]:
    pairing, repairs, out = Pairing(), list[Repair](), list[Message]()
    for message in messages:
        out += pairing.add(message, repairs)
    return [*out, *pairing.close(repairs)], repairs


def placeholder(call_id: str) -> ToolResultBlock:
    return ToolResultBlock(call_id=call_id, output=SYNTHETIC_TOOL_RESULT_PLACEHOLDER, is_error=True)


def test_a_sound_conversation_is_left_alone():
    """SESS-11."""
    sound = [
        user(says()),
        model(call("a"), call("b")),
        user(result("a"), result("b")),
        model(says()),
    ]
    assert mended(*sound) == (sound, [])


def test_a_missing_result_gets_a_placeholder_behind_those_that_are_there():
    """SESS-11."""
    out, repairs = mended(user(says()), model(call("a"), call("b")), user(result("b"), says("go")))
    assert out[2] == user(result("b"), placeholder("a"), says("go"))
    assert repairs == [Repair(kind="missing_result", call_id="a")]


def test_calls_without_any_message_behind_them_get_one_of_placeholders():
    out, repairs = mended(user(says()), model(call("a")), model(says()))
    assert out == [user(says()), model(call("a")), user(placeholder("a")), model(says())]
    assert repairs == [Repair(kind="missing_result", call_id="a")]


def test_a_result_without_a_call_is_left_out():
    """SESS-11."""
    out, repairs = mended(user(says(), result("ghost")), model(says()))
    assert out == [user(says()), model(says())]
    assert repairs == [Repair(kind="orphan_result", call_id="ghost")]


def test_a_message_of_orphans_alone_disappears():
    assert mended(user(result("ghost")))[0] == []


def test_a_second_result_is_left_out():
    """SESS-11."""
    out, repairs = mended(model(call("a")), user(result("a", "1"), result("a", "2")))
    assert out[1] == user(result("a", "1"))
    assert repairs == [Repair(kind="duplicate_result", call_id="a")]


def test_an_id_that_was_used_before_gets_a_derived_one_with_its_result():
    """SESS-11."""
    out, repairs = mended(
        model(call("a")), user(result("a")), model(call("a")), user(result("a", "second"))
    )
    assert out[2:] == [model(call("a-2")), user(result("a-2", "second"))]
    assert repairs == [Repair(kind="duplicate_call", call_id="a")]


def test_results_stand_before_text_in_their_message():
    """K-PAIRING-01."""
    out, _ = mended(model(call("a")), user(says("and D"), result("a")))
    assert out[1] == user(result("a"), says("and D"))


def test_strict_pairing_fails_on_the_first_repair_with_the_whole_list():
    """SESS-12, ERR-02."""
    _, repairs = mended(model(call("a"), call("b")))
    with pytest.raises(AgentToolPairingError) as caught:
        check_repairs(repairs, strict=True, max_repairs=None)
    assert caught.value.details["repairs"] == [repair.packed() for repair in repairs]
    assert len(repairs) == 2


def test_the_cap_on_repairs_is_reached_above_it():
    """SESS-13."""
    _, repairs = mended(model(call("a"), call("b")))
    check_repairs(repairs, strict=False, max_repairs=None)
    check_repairs(repairs, strict=False, max_repairs=2)
    with pytest.raises(AgentToolPairingError):
        check_repairs(repairs, strict=False, max_repairs=1)
    check_repairs([], strict=True, max_repairs=0)


ids = st.sampled_from(["a", "b", "c"])
blocks = st.one_of(st.builds(call, ids), st.builds(result, ids), st.just(says()))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Any order of calls, results and text, each on the side that can write it."""
    made: list[Message] = []
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            content = draw(st.lists(st.one_of(st.builds(call, ids), st.just(says())), min_size=1))
            made.append(model(*content))
        else:
            content = draw(st.lists(st.one_of(st.builds(result, ids), st.just(says())), min_size=1))
            made.append(user(*content))
    return made


@given(conversations())
def test_whatever_came_before_each_call_has_one_result_right_behind_it(messages: list[Message]):
    """SESS-11: the law that providers check."""
    out, _ = mended(*messages)
    used: list[str] = []
    for at, message in enumerate(out):
        calls = [b.id for b in message.content if isinstance(b, ToolCallBlock)]
        results = [b.call_id for b in message.content if isinstance(b, ToolResultBlock)]
        used += calls
        if calls:
            after = [b.call_id for b in out[at + 1].content if isinstance(b, ToolResultBlock)]
            assert sorted(after) == sorted(calls)
        if results:
            assert any(isinstance(b, ToolCallBlock) for b in out[at - 1].content)
    assert len(used) == len(set(used))


@given(conversations())
def test_mending_twice_changes_nothing_more(messages: list[Message]):
    out, _ = mended(*messages)
    assert mended(*out) == (out, [])
