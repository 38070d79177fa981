"""What a watcher shows: every word once, whatever died in between."""

from zidane_client.following import Following, Noted, Piece, Shown, TurnShown, Voided
from zidane_core.content import TextBlock, ThinkingBlock
from zidane_core.events import EventName, RunEvent
from zidane_core.session import Turn

TURN = Turn(
    id="t1",
    role="assistant",
    created_at=0,
    content=(ThinkingBlock(text="hm"), TextBlock(text="Hello world.")),
)


def event(name: EventName, *, attempt: int = 1, turn_id: str | None = "t1", **fields: str):
    return RunEvent(
        run_id="r", session_id="s", name=name, turn_id=turn_id, attempt=attempt, fields={**fields}
    )


def text(delta: str, attempt: int = 1) -> RunEvent:
    return event("text", attempt=attempt, delta=delta)


def watched(*events: RunEvent, committed: Turn | None = TURN) -> list[Shown]:
    following = Following()
    return [
        shown
        for each in events
        for shown in following.take(each, committed if each.name == "turn:done" else None)
    ]


def words(shown: list[Shown]) -> str:
    """The text that stands at the end."""
    standing = ""
    for each in shown:
        match each:
            case Piece() if each.kind == "text":
                standing += each.text
            case Voided():
                standing = standing.removesuffix(each.text)
            case _:
                pass
    return standing


def test_a_new_attempt_voids_what_the_dead_one_had_sent_and_the_text_stands_once():
    """K-TEMPORAL-08, DUR-08."""
    shown = watched(
        text("Hello wor"), text("Hello ", 2), text("world.", 2), event("turn:done", attempt=2)
    )
    assert words(shown) == "Hello world."
    voided = [each for each in shown if isinstance(each, Voided)]
    assert [each.text for each in voided] == ["Hello wor"]


def test_a_watcher_that_joins_during_the_second_attempt_ends_with_the_same_text():
    """K-TEMPORAL-08."""
    shown = watched(text("world.", 2), event("turn:done", attempt=2))
    assert words(shown) == "Hello world."


def test_a_watcher_that_joins_after_the_commit_gets_the_whole_turn():
    """K-TEMPORAL-08."""
    shown = watched(event("turn:done"))
    assert [each for each in shown if isinstance(each, Piece)] == [
        Piece("t1", "thinking", "hm"),
        Piece("t1", "text", "Hello world."),
    ]
    assert isinstance(shown[-1], TurnShown)


def test_only_what_was_not_streamed_is_added_at_the_commit():
    shown = watched(event("thinking", delta="hm"), text("Hello "), event("turn:done"))
    assert [each.text for each in shown if isinstance(each, Piece)] == ["hm", "Hello ", "world."]


def test_a_late_piece_of_a_dead_attempt_is_not_shown():
    """K-TEMPORAL-08."""
    shown = watched(text("Hello ", 2), text("wor", 1), event("turn:done", attempt=2))
    assert words(shown) == "Hello world."


def test_a_piece_behind_the_commit_is_not_shown():
    shown = watched(event("turn:done"), text("again"))
    assert words(shown) == "Hello world."


def test_a_failed_attempt_is_voided_with_its_reason():
    shown = watched(text("Hel"), event("turn:failed", reason="overloaded"))
    assert shown[1] == Voided("t1", "Hel", "overloaded")
    assert words(shown) == ""


def test_a_commit_that_says_something_else_replaces_what_was_shown():
    shown = watched(text("Good evening"), event("turn:done"))
    assert words(shown) == "Hello world."


def test_other_events_pass_as_they_are():
    parked = event("run:parked", turn_id=None, reason="no key")
    assert watched(parked) == [Noted(parked)]
