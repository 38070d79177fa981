"""How a tool's output is bounded and made showable: head and tail of a stream, lists of lines."""

from collections.abc import Iterable

_MAX_DECODED_GROWTH = 3
"""A byte that is no UTF-8 becomes U+FFFD, three bytes."""
_MAX_CONTINUATIONS = 3
"""Bytes of a character after its first."""


def showable(raw: bytes) -> str:
    """Return bytes as text that any store and provider takes: bad UTF-8 is U+FFFD, NUL is U+2400.

    Implements: K-SHELL-03.
    """
    return raw.decode("utf-8", "replace").replace("\0", "\u2400")


def showable_name(name: str) -> str:
    """Return a file's name as text; bytes that are no UTF-8 are U+FFFD."""
    return showable(name.encode("utf-8", "surrogateescape"))


def size_of(text: str) -> int:
    """Return the UTF-8 bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


class HeadAndTail:
    """Keeps the first and the last bytes of a stream of any length; memory is bounded.

    Args:
        max_bytes: UTF-8 bytes of the text that `text` returns, its note not counted.
        head_bytes: How many of them are the stream's beginning once it is too long.

    Implements: BG-08, K-TEMPORAL-01.
    """

    def __init__(self, *, max_bytes: int, head_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._head_bytes = head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        """All that was fed."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total_bytes += len(data)
        room = self._head_bytes - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 4 * self._max_bytes:
            del self._tail[: -self._max_bytes]

    def text(self) -> str:
        """Return the stream as text: all of it, or head, a note of the bytes left out, and tail."""
        kept = bytes(self._head + self._tail)
        if len(kept) == self.total_bytes and len(kept) <= self._max_bytes:
            whole = showable(kept)
            if size_of(whole) <= self._max_bytes:
                return whole
        head = fit_head(bytes(self._head), self._head_bytes)
        tail = fit_tail(bytes(self._tail), self._max_bytes - self._head_bytes)
        left_out = self.total_bytes - len(head) - len(tail)
        note = f"\n[... {left_out} of {self.total_bytes} bytes left out here ...]\n"
        return showable(head) + note + showable(tail)


def fit_head(raw: bytes, max_bytes: int) -> bytes:
    """Return the longest beginning of at most `max_bytes` when shown, in whole characters.

    More bytes are taken to follow `raw`.
    """
    head = raw[: _fit(raw, max_bytes, from_start=True)]
    for length in range(1, min(_MAX_CONTINUATIONS, len(head)) + 1):
        if _length_from(head[-length]) > length:
            return head[:-length]
    return head


def fit_tail(raw: bytes, max_bytes: int) -> bytes:
    """Return the longest end of at most `max_bytes` when shown, in whole characters.

    Other bytes are taken to stand before `raw`.
    """
    tail = raw[len(raw) - _fit(raw, max_bytes, from_start=False) :]
    for _ in range(_MAX_CONTINUATIONS):
        if tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]
    return tail


def _length_from(first: int) -> int:
    """Return how many bytes a character has that starts with this one; 0 if none does."""
    if first < 0xC0:
        return 0
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _fit(raw: bytes, max_bytes: int, *, from_start: bool) -> int:
    low, high = min(len(raw), max_bytes // _MAX_DECODED_GROWTH), min(len(raw), max_bytes)
    while low < high:
        middle = (low + high + 1) // 2
        piece = raw[:middle] if from_start else raw[len(raw) - middle :]
        if size_of(showable(piece)) <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def cap_lines(lines: Iterable[str], *, max_bytes: int) -> tuple[list[str], int]:
    """Take lines while they fit.

    Args:
        lines: Without line ends.
        max_bytes: UTF-8 bytes of what is kept, a line end counted for each line.

    Returns:
        The lines kept, in order, and how many were left out after them.
    """
    kept: list[str] = []
    left_out = used = 0
    for line in lines:
        used += size_of(line) + 1
        if left_out or used > max_bytes:
            left_out += 1
        else:
            kept.append(line)
    return kept, left_out


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in `1 line` and `2 lines`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
