from collections.abc import Sequence

import pytest
from hypothesis import given

from tests.support.wire_messages import answer, call, result, tool_heavy, turn, user
from zidane_core.content import ToolCallBlock, ToolResultBlock
from zidane_core.context.stale_reads import (
    has_changed,
    paths_of,
    stale_read_notice,
    stale_reads,
    with_stubs,
)
from zidane_core.session import Message

Pair = tuple[ToolCallBlock, ToolResultBlock]

READ: Pair = (call("r", "read_file", path="a.py"), result("r", "body of a"))


def messages(*pairs: Pair) -> tuple[Message, ...]:
    made = [user("go")]
    for asked, told in pairs:
        made += [answer(asked), user(told)]
    return tuple(made)


def edit(
    outcome: str | None = "edited", path: str = "a.py", name: str = "edit", text: str = "done"
) -> Pair:
    return call("e", name, path=path), result("e", text, outcome=outcome)


def stubbed(asked: Sequence[Message], runs: dict[str, str | None] | None = None) -> list[str]:
    return list(stale_reads(asked, runs or {}))


@pytest.mark.parametrize("name", ["edit", "multi_edit", "write_file"])
def test_a_success_of_any_editing_tool_makes_earlier_reads_of_the_path_stale(name: str):
    """FILE-07."""
    asked = messages(READ, edit(name=name))
    made = with_stubs(asked, stale_reads(asked, {}))
    assert "a.py was changed after this read" in str(made[2].content[0])
    assert (made[:2], made[3:]) == (asked[:2], asked[3:])
    assert asked[2].content[0] == READ[1]


@pytest.mark.parametrize(
    ("pair", "is_success"),
    [
        (edit("edited"), True),
        (edit("created"), True),
        (edit("updated"), True),
        (edit("noop"), False),
        (edit("failed"), False),
        (edit("noop", text="Edited a.py"), False),
        (edit(None, text="Edited a.py: 1 replacement"), True),
        (edit(None, text="Created a.py"), True),
        (edit(None, text="Updated a.py"), True),
        (edit(None, text="No change needed: a.py"), False),
        (edit(None, text="it was Edited a.py"), False),
        (edit(name="shell"), False),
    ],
)
def test_a_success_is_the_reported_outcome_or_else_the_texts_beginning(
    pair: Pair, is_success: bool
):
    """FILE-07, G-17."""
    assert has_changed(*pair) is is_success
    assert bool(stubbed(messages(READ, pair))) is is_success


def test_an_error_of_an_edit_or_a_read_makes_nothing_stale():
    """FILE-07."""
    asked, told = edit()
    refused = told.model_copy(update={"is_error": True})
    assert not stubbed(messages(READ, (asked, refused)))
    failed_read = READ[1].model_copy(update={"is_error": True})
    assert not stubbed(messages((READ[0], failed_read), edit()))


def test_only_earlier_reads_of_the_same_path_in_the_same_run_are_stale():
    """FILE-07."""
    assert not stubbed(messages(edit(), READ))
    assert not stubbed(messages(READ, edit(path="b.py")))
    assert not stubbed(messages(READ, edit()), {"r": "one", "e": "two"})
    assert stubbed(messages(READ, edit()), {"r": "one", "e": "one"}) == ["r"]


@pytest.mark.parametrize("path", ["./a.py", "src/../a.py", "a.py/"])
def test_the_same_path_may_be_written_in_several_ways(path: str):
    assert stubbed(messages(READ, edit(path=path))) == ["r"]


def test_a_path_is_also_what_the_tool_resolved_it_to():
    told = result("e", outcome="edited").model_copy(
        update={"metadata": {"outcome": "edited", "path": "a.py"}}
    )
    pair = (call("e", "edit", path="/work/a.py"), told)
    assert paths_of(*pair) == {"/work/a.py", "a.py"}
    assert stubbed(messages(READ, pair)) == ["r"]


def test_a_read_in_the_same_batch_counts_by_its_place_in_the_batch():
    asked, told = edit()
    before = (answer(READ[0], asked), user(READ[1], told))
    after = (answer(asked, READ[0]), user(told, READ[1]))
    assert (stubbed(before), stubbed(after)) == (["r"], [])


def test_nothing_stale_gives_the_same_messages_back():
    asked = messages(READ)
    assert with_stubs(asked, stale_reads(asked, {})) is asked


def test_a_notice_names_the_path_only_when_a_read_of_this_run_became_stale():
    """FILE-08: append-only; nothing earlier changes."""
    asked, told = edit()
    read = [turn("t1", "assistant", READ[0]), turn("t2", "user", READ[1])]
    here = turn("t3", "assistant", asked)
    notice = stale_read_notice([*read, here], "r1", asked, told)
    assert notice is not None
    assert "a.py" in notice
    assert notice.startswith("<stale-read>")
    assert stale_read_notice([here], "r1", asked, told) is None
    assert stale_read_notice([*read, here], "other", asked, told) is None
    assert stale_read_notice([*read, here], "r1", *edit("noop")) is None


def test_a_second_edit_gives_no_second_notice_until_the_file_is_read_again():
    """FILE-08."""
    first, told = call("e1", "edit", path="a.py"), result("e1", outcome="edited")
    path = [
        turn("t1", "assistant", READ[0]),
        turn("t2", "user", READ[1]),
        turn("t3", "assistant", first),
        turn("t4", "user", told),
    ]
    again, done = edit()
    assert stale_read_notice(path, "r1", again, done) is None
    reread = (call("r2", "read_file", path="a.py"), result("r2"))
    path += [turn("t5", "assistant", reread[0]), turn("t6", "user", reread[1])]
    assert stale_read_notice(path, "r1", again, done) is not None


@given(tool_heavy())
def test_more_messages_change_earlier_ones_only_when_another_read_becomes_stale(
    asked: tuple[Message, ...],
):
    """CACHE-04, FILE-08: and what is a stub stays one."""
    for length in range(len(asked)):
        before, after = stale_reads(asked[:length], {}), stale_reads(asked[: length + 1], {})
        assert list(after)[: len(before)] == list(before)
        if len(before) == len(after):
            longer = with_stubs(asked[: length + 1], after)
            assert longer[:length] == with_stubs(asked[:length], before)
