"""The sessions that a process has read lately, so that a turn costs only what is new."""

import itertools
import operator
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast, overload

from activities.store.turn_work import StoredTurn
from zidane_core.session import Turn

DEFAULT_MAX_BYTES = 64 * 1024 * 1024
DEFAULT_MAX_SESSIONS = 256
_TURN_OVERHEAD_BYTES = 2048
"""What a turn's objects take beside its content, roughly."""


class PathView(Sequence[Turn]):
    """An immutable view of the first `length` turns of a list that only grows: no copy."""

    __slots__ = ("_length", "_turns")

    def __init__(self, turns: list[Turn], length: int) -> None:
        self._turns = turns
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Turn]:
        return itertools.islice(self._turns, self._length)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Turn, ...]: ...
    def __getitem__(self, index: int | slice) -> Turn | tuple[Turn, ...]:
        if isinstance(index, slice):
            return tuple(self._turns[at] for at in range(*index.indices(self._length)))
        at = index + self._length if index < 0 else index
        if not 0 <= at < self._length:
            raise IndexError(f"turn {index} of a path of {self._length}")
        return self._turns[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        turns = cast("Sequence[object]", other)
        return len(self) == len(turns) and all(map(operator.eq, self, turns))

    def __hash__(self) -> int:
        return hash(tuple(turn.id for turn in self))

    def __repr__(self) -> str:
        return f"PathView({[turn.id for turn in self]})"


@dataclass
class _Session:
    turns: list[Turn] = field(default_factory=list[Turn])
    sizes: list[int] = field(default_factory=list[int])
    index: dict[str, int] = field(default_factory=dict[str, int])
    bytes: int = 0

    def append(self, entry: StoredTurn) -> None:
        self.index[entry.turn.id] = len(self.turns)
        self.turns.append(entry.turn)
        size = entry.bytes + _TURN_OVERHEAD_BYTES
        self.sizes.append(size)
        self.bytes += size

    def branch(self, length: int) -> "_Session":
        """Return a copy of the first turns; views of this one stay as they are."""
        turns, sizes = self.turns[:length], self.sizes[:length]
        index = {turn.id: at for at, turn in enumerate(turns)}
        return _Session(turns, sizes, index, sum(sizes))


class SessionCache:
    """One path per session, the least recently used dropped first.

    Args:
        max_bytes: Content kept in all; the session used last is kept whatever its size.
        max_sessions: Sessions kept.
    """

    def __init__(
        self,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
    ) -> None:
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._max_bytes = max_bytes
        self._max_sessions = max_sessions
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def bytes(self) -> int:
        """Content kept at present, with an allowance per turn."""
        return self._bytes

    def path(self, session_id: str, head: str) -> PathView | None:
        """Return the path to `head`, or None when it is not known."""
        session = self._sessions.get(session_id)
        at = session.index.get(head) if session is not None else None
        if session is None or at is None:
            return None
        self._sessions.move_to_end(session_id)
        return PathView(session.turns, at + 1)

    def turn(self, session_id: str, turn_id: str) -> Turn | None:
        """Return a turn, or None when it is not known."""
        session = self._sessions.get(session_id)
        at = session.index.get(turn_id) if session is not None else None
        return session.turns[at] if session is not None and at is not None else None

    def end(self, session_id: str) -> tuple[str, int] | None:
        """Return the id and depth of the last turn of a session's path."""
        session = self._sessions.get(session_id)
        if session is None or not session.turns:
            return None
        return session.turns[-1].id, len(session.turns) - 1

    def add(self, session_id: str, stored: Sequence[StoredTurn]) -> None:
        """Take turns that follow each other, root first; ignored when their parent is not known."""
        fresh = [entry for entry in stored if self.turn(session_id, entry.turn.id) is None]
        if not fresh:
            return
        session = self._sessions.pop(session_id, None)
        before = session.bytes if session is not None else 0
        session = _joined(session, fresh[0].turn.parent_id)
        if session is not None:
            for entry in fresh:
                session.append(entry)
            self._sessions[session_id] = session
        self._bytes += (session.bytes if session is not None else 0) - before
        self._shrink()

    def _shrink(self) -> None:
        while len(self._sessions) > 1 and (
            self._bytes > self._max_bytes or len(self._sessions) > self._max_sessions
        ):
            _, oldest = self._sessions.popitem(last=False)
            self._bytes -= oldest.bytes


def _joined(session: _Session | None, parent_id: str | None) -> _Session | None:
    """Return the session cut to where the parent ends it, or None when it does not hold it."""
    if parent_id is None:
        return _Session()
    at = session.index.get(parent_id) if session is not None else None
    if session is None or at is None:
        return None
    return session if at == len(session.turns) - 1 else session.branch(at + 1)
