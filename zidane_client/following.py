"""From a run's events to what a watcher shows: each word once, dead attempts voided.

Pieces of text are live: they go when their turn is committed, and a worker that dies leaves
some that another attempt streams again. This file knows what a watcher has been shown.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from zidane_core.content import ThinkingBlock
from zidane_core.events import RunEvent
from zidane_core.session import Turn

Kind = Literal["text", "thinking"]


@dataclass(frozen=True)
class Piece:
    """More text of a turn, after what was shown before."""

    turn_id: str
    kind: Kind
    text: str


@dataclass(frozen=True)
class Voided:
    """What was shown of a turn no longer counts: another attempt starts from its beginning."""

    turn_id: str
    text: str
    """The text, without thinking, that is void."""
    reason: str


@dataclass(frozen=True)
class TurnShown:
    """A turn is committed and has been shown whole."""

    turn: Turn
    event: RunEvent


@dataclass(frozen=True)
class Noted:
    """Any other event, as it is."""

    event: RunEvent


Shown = Piece | Voided | TurnShown | Noted


@dataclass
class _Open:
    """What has been shown of a turn that is not committed."""

    attempt: int
    text: dict[Kind, str] = field(default_factory=lambda: {"text": "", "thinking": ""})

    @property
    def is_empty(self) -> bool:
        return not any(self.text.values())


class Following:
    """What one watcher has been shown; pure, so that any reader of events can use it.

    Implements: DUR-08, K-TEMPORAL-08.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._done: set[str] = set()

    def take(self, event: RunEvent, committed: Turn | None = None) -> tuple[Shown, ...]:
        """Take the next event and say what to show.

        Args:
            event: In the order of the store.
            committed: For `turn:done` the stored turn; None when it cannot be read.
        """
        turn_id = event.turn_id
        if turn_id is None:
            return (Noted(event),)
        match event.name:
            case "text" | "thinking":
                return self._piece(event, turn_id, event.name)
            case "turn:failed":
                return (*self._void(turn_id, str(event.fields.get("reason", ""))), Noted(event))
            case "turn:done":
                return self._committed(event, turn_id, committed)
            case _:
                return (Noted(event),)

    def _piece(self, event: RunEvent, turn_id: str, kind: Kind) -> tuple[Shown, ...]:
        if turn_id in self._done:
            return ()
        known = self._open.get(turn_id)
        voided: tuple[Shown, ...] = ()
        if known is not None and event.attempt < known.attempt:
            return ()
        if known is not None and event.attempt > known.attempt:
            voided = self._void(turn_id, "the worker was lost; the turn starts again")
            known = None
        if known is None:
            known = self._open[turn_id] = _Open(event.attempt)
        delta = str(event.fields.get("delta", ""))
        known.text[kind] += delta
        return (*voided, Piece(turn_id, kind, delta))

    def _void(self, turn_id: str, reason: str) -> tuple[Shown, ...]:
        known = self._open.pop(turn_id, None)
        if known is None or known.is_empty:
            return ()
        return (Voided(turn_id, known.text["text"], reason),)

    def _committed(self, event: RunEvent, turn_id: str, turn: Turn | None) -> tuple[Shown, ...]:
        if turn is None:
            return (Noted(event),)
        self._done.add(turn_id)
        known = self._open.pop(turn_id, None) or _Open(event.attempt)
        shown: list[Shown] = []
        whole: dict[Kind, str] = {"thinking": _thinking(turn), "text": turn.text}
        # Pieces are dropped when their turn is committed, so a watcher may have missed the last.
        if any(not whole[kind].startswith(known.text[kind]) for kind in whole):
            shown.append(Voided(turn_id, known.text["text"], "another attempt finished the turn"))
            known = _Open(event.attempt)
        for kind, text in whole.items():
            rest = text[len(known.text[kind]) :]
            if rest:
                shown.append(Piece(turn_id, kind, rest))
        return (*shown, TurnShown(turn, event))


def _thinking(turn: Turn) -> str:
    return "".join(block.text for block in turn.content if isinstance(block, ThinkingBlock))


async def follow(
    events: AsyncIterator[RunEvent], turn: Callable[[str], Awaitable[Turn | None]]
) -> AsyncIterator[Shown]:
    """Yield what to show of a run, from its events.

    Args:
        events: `RunHandle.events()`; a late joiner's begin at the start too.
        turn: Reads a stored turn by its id.
    """
    following = Following()
    async for event in events:
        committed = None
        if event.name == "turn:done" and event.turn_id is not None:
            committed = await turn(event.turn_id)
        for shown in following.take(event, committed):
            yield shown
