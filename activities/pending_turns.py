"""From the loop's new turns to what the store appends."""

from collections.abc import Sequence

from activities.store import PendingTurn
from activities.store import ResultsTurn as StoredResults
from zidane_core.content import ContentBlock, TextBlock, clean_text, prompt_blocks
from zidane_core.requests import (
    FinishRun,
    InjectedTurn,
    MessageTurn,
    NewTurn,
    ResultsTurn,
    StreamTurn,
)
from zidane_core.session import Turn


def pending_turns(
    request: StreamTurn | FinishRun, turns: Sequence[NewTurn]
) -> tuple[PendingTurn, ...]:
    """Return the turns to append in order; each follows the one before, the first the head."""
    return tuple(_pending(request, turn) for turn in turns)


def _pending(request: StreamTurn | FinishRun, turn: NewTurn) -> PendingTurn:
    match turn:
        case ResultsTurn():
            return StoredResults(
                id=turn.id,
                run_id=request.run_id,
                created_at=request.now,
                assistant_turn_id=request.head or "",
                call_ids=turn.call_ids,
                made=turn.made,
            )
        case InjectedTurn():
            content: tuple[ContentBlock, ...] = (TextBlock(text=turn.text),)
            return _user_turn(request, turn.id, content).model_copy(
                update={"injected": turn.reason}
            )
        case MessageTurn():
            notes = tuple(
                TextBlock(text=clean_text(note), system_note="message")
                for note in turn.message.system_notes
            )
            content = (*prompt_blocks(turn.message.prompt), *notes)
            return _user_turn(request, turn.id, content).model_copy(
                update={"message_id": turn.message.id}
            )


def _user_turn(
    request: StreamTurn | FinishRun, turn_id: str, content: tuple[ContentBlock, ...]
) -> Turn:
    return Turn(
        id=turn_id,
        role="user",
        content=content,
        created_at=request.now,
        run_id=request.run_id,
    )
