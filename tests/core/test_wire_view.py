from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from zidane_core.content import ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.context.pairing import Repair
from zidane_core.context.wire_view import WireView
from zidane_core.session import Message, Turn, TurnRole


def turn(number: int, role: TurnRole, *blocks: ContentBlock, aborted: bool = False) -> Turn:
    content = blocks or (TextBlock(text=f"t{number}"),)
    return Turn(id=f"t{number}", role=role, content=content, created_at=0, aborted=aborted)


def view_of(path: Sequence[Turn]) -> WireView:
    view = WireView()
    view.extend(path)
    return view


CALL = ToolCallBlock(id="a", name="look", input={})
RESULT = ToolResultBlock(call_id="a", output="ok")


def test_only_user_and_assistant_turns_reach_a_model_and_no_aborted_one():
    """LOOP-15, SESS-02, SESS-04, CTL-11."""
    path = [
        turn(0, "system"),
        turn(1, "user"),
        turn(2, "command"),
        turn(3, "assistant", aborted=True),
        turn(4, "assistant"),
    ]
    view = view_of(path)
    assert [(m.role, m.content) for m in view.messages()] == [
        ("user", path[1].content),
        ("assistant", path[4].content),
    ]
    assert view.assistant_turns == 1


def test_empty_text_is_left_out_and_with_it_an_empty_message():
    path = [turn(1, "user"), turn(2, "assistant", TextBlock(text="")), turn(3, "user")]
    assert [m.role for m in view_of(path).messages()] == ["user", "user"]
    with_call = [turn(1, "user"), turn(2, "assistant", TextBlock(text=""), CALL)]
    assert view_of(with_call).messages()[1].content == (CALL,)


def test_open_calls_get_placeholders_only_in_what_is_sent():
    """SESS-11: the result that comes later takes the placeholder's place."""
    view = view_of([turn(1, "user"), turn(2, "assistant", CALL)])
    assert view.messages()[-1].content[0] != RESULT
    assert view.repairs() == (Repair(kind="missing_result", call_id="a"),)
    path = [turn(1, "user"), turn(2, "assistant", CALL), turn(3, "user", RESULT)]
    view.extend(path)
    assert view.messages()[-1].content == (RESULT,)
    assert view.repairs() == ()


def test_a_view_covers_only_paths_that_go_through_its_end():
    path = [turn(1, "user"), turn(2, "assistant")]
    view = view_of(path)
    assert view.covers(path)
    assert view.covers([*path, turn(3, "user")])
    assert not view.covers([turn(1, "user")])
    assert not view.covers([turn(1, "user"), turn(9, "assistant")])
    assert WireView().covers(path)


@st.composite
def paths(draw: st.DrawFn) -> list[Turn]:
    """Paths as runs leave them, and as crashes and forks may."""
    roles: list[TurnRole] = ["user", "assistant", "system", "command"]
    ids = st.sampled_from(["a", "b"])
    made: list[Turn] = []
    for number in range(draw(st.integers(1, 10))):
        role = draw(st.sampled_from(roles))
        calls = st.builds(ToolCallBlock, id=ids, name=st.just("look"), input=st.just({}))
        results = st.builds(ToolResultBlock, call_id=ids, output=st.just("ok"))
        texts = st.sampled_from([TextBlock(text="x"), TextBlock(text="")])
        own = calls if role == "assistant" else results
        content = draw(st.lists(st.one_of(texts, own), min_size=1, max_size=3))
        made.append(turn(number, role, *content, aborted=draw(st.integers(0, 5)) == 0))
    return made


@given(paths())
def test_a_longer_path_keeps_the_prefix_of_a_settled_shorter_one(path: list[Turn]):
    """LOOP-15: adding turns never rewrites what was sent, but for placeholders of open calls."""
    view = WireView()
    for length in range(len(path)):
        view.extend(path[:length])
        before = view.messages()
        settled = len(before) - (1 if before and _is_placeholders(before[-1]) else 0)
        view.extend(path[: length + 1])
        assert view.messages()[:settled] == before[:settled]


def _is_placeholders(message: Message) -> bool:
    return all(isinstance(block, ToolResultBlock) and block.is_error for block in message.content)


@given(paths(), st.data())
def test_a_view_built_turn_by_turn_is_the_one_built_at_once(path: list[Turn], data: st.DataObject):
    """K-TEMPORAL-16: a warm worker sends what a cold one would send."""
    warm = WireView()
    warm.extend(path[: data.draw(st.integers(0, len(path)))])
    warm.messages()
    warm.extend(path)
    cold = view_of(path)
    assert warm.messages() == cold.messages()
    assert warm.repairs() == cold.repairs()
    assert warm.assistant_turns == cold.assistant_turns
