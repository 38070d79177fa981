"""Finding a text in a file's text and replacing it: pure, on strings, no file is touched.

The file's text is decoded so that every byte survives (surrogateescape). Texts are compared
with CRLF read as LF; what is written keeps the file's own line ends, and of a match only the
part that differs is replaced. So bytes outside of that part never change.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from activities.toolbox.capping import showable_name
from zidane_core.authoring import ToolError

_MAX_PREVIEW_LINES = 25
_MAX_PREVIEW_CHARS = 2_000
_MAX_SCANNED_LINES = 20_000
_MAX_FUZZY_LINES = 2_000
_MAX_FUZZY_CHARS = 400
_MAX_VOTES_PER_LINE = 200
_MAX_COUNTED = 1_000
_MAX_LISTED_LINES = 20
_NUMBERED = re.compile(r"[ ]*[0-9]+\t")
_NEWLINE = re.compile(r"\r?\n")


@dataclass(frozen=True)
class Replacement:
    """One wish: put `new` where `old` stands."""

    old: str
    new: str
    replace_all: bool = False


@dataclass(frozen=True)
class Replaced:
    """A text after a replacement."""

    text: str
    lines: tuple[int, ...]
    """1-based line of each place that was replaced, ascending, at least one."""


def replace(text: str, wish: Replacement) -> Replaced:
    """Replace a text that occurs once, or everywhere with `replace_all`.

    Line ends of `old` match whatever line ends the file has; those of `new` become the file's.
    When the two differ in nothing but line ends they are taken as they are. When `old` is not
    found and each of its lines starts with a line number and a tab, as `read_file` shows them,
    these prefixes are stripped from both texts.

    Returns:
        The changed text, never equal to the old one.

    Raises:
        ToolError: Nothing would change, `old` is empty, not found (shows the nearest text), or
            not unique (lists the lines).

    Implements: FILE-02, FILE-11, K-FILES-01, K-FILES-02, K-FILES-03.
    """
    if not wish.old:
        raise ToolError(
            "old_string is empty, which makes a new file, but this file exists. Give the text to "
            "replace, or use write_file."
        )
    if wish.old == wish.new:
        raise ToolError("old_string and new_string are identical: nothing would change.")
    old, new = _with_lf(wish.old), _with_lf(wish.new)
    if old == new:
        return _replace_line_ends(text, wish)
    source = _Source(text)
    starts = source.find(old, replace_all=wish.replace_all)
    if not starts:
        old, new = _without_numbers(old, new)
        if old == new:
            raise ToolError(
                "old_string and new_string are identical but for the line numbers of read_file: "
                "nothing would change."
            )
        starts = source.find(old, replace_all=wish.replace_all)
    if not starts:
        raise ToolError(_not_found(source.text, old))
    lines = _lines_of(source.text, starts)
    if len(lines) > 1 and not wish.replace_all:
        raise ToolError(_not_unique(lines))
    changed = source.replace_at(starts, old, _New(new, wish.new))
    if changed == text:
        raise ToolError("The file already reads so: nothing would change.")
    return Replaced(changed, lines)


def _with_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


class _New:
    """The new text with LF, and the line ends it was written with."""

    def __init__(self, text: str, written: str) -> None:
        self.text = text
        ends: list[str] = _NEWLINE.findall(written)
        # Stripped line numbers never hold a line end, so the count stays the same.
        self.ends = ends


class _Source:
    """A file's text with LF, and the way back to the text with its own line ends."""

    def __init__(self, raw: str) -> None:
        self._raw = raw
        self.text = _with_lf(raw)
        self._crlf = [match.start() - index for index, match in enumerate(re.finditer("\r\n", raw))]

    def find(self, wanted: str, *, replace_all: bool) -> list[int]:
        """Return where a text starts; overlapping places count when it has to be unique."""
        starts: list[int] = []
        start = self.text.find(wanted)
        while start >= 0 and (replace_all or len(starts) < _MAX_COUNTED):
            starts.append(start)
            start = self.text.find(wanted, start + (len(wanted) if replace_all else 1))
        return starts

    def replace_at(self, starts: list[int], old: str, new: _New) -> str:
        prefix, suffix = _common_ends(old, new.text)
        middle = new.text[prefix : len(new.text) - suffix]
        first_end = new.text.count("\n", 0, prefix)
        pieces: list[str] = []
        done = 0
        for start in starts:
            begin = self._to_raw(start + prefix)
            end = self._to_raw(start + len(old) - suffix)
            pieces.append(self._raw[done:begin])
            pieces.append(self._with_own_ends(middle, begin, end, new.ends[first_end:]))
            done = end
        pieces.append(self._raw[done:])
        return "".join(pieces)

    def _to_raw(self, position: int) -> int:
        return position + bisect_left(self._crlf, position)

    def _with_own_ends(self, middle: str, begin: int, end: int, written: list[str]) -> str:
        """Give each line end of the new text the form of the one that it replaces."""
        if "\n" not in middle:
            return middle
        replaced: list[str] = _NEWLINE.findall(self._raw, begin, end)
        near = replaced[-1] if replaced else self._line_end_near(begin, end)
        lines = middle.split("\n")
        pieces = [lines[0]]
        for index, line in enumerate(lines[1:]):
            own = replaced[index] if index < len(replaced) else near
            pieces.append(own or written[index])
            pieces.append(line)
        return "".join(pieces)

    def _line_end_near(self, begin: int, end: int) -> str | None:
        after = _NEWLINE.search(self._raw, end)
        if after is not None:
            return after.group()
        at = self._raw.rfind("\n", 0, begin)
        if at < 0:
            return None
        return "\r\n" if self._raw[at - 1 : at] == "\r" else "\n"


def _lines_of(text: str, starts: list[int]) -> tuple[int, ...]:
    lines: list[int] = []
    line, done = 1, 0
    for start in starts:
        line += text.count("\n", done, start)
        done = start
        lines.append(line)
    return tuple(lines)


def _common_ends(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two texts share at their start and, of the rest, at their end."""
    shorter = min(len(old), len(new))
    prefix = 0
    while prefix < shorter and old[prefix] == new[prefix]:
        prefix += 1
    suffix = 0
    while suffix < shorter - prefix and old[-1 - suffix] == new[-1 - suffix]:
        suffix += 1
    return prefix, suffix


def _replace_line_ends(text: str, wish: Replacement) -> Replaced:
    starts = list(_literal_places(text, wish.old))
    if not starts:
        raise ToolError(
            "old_string and new_string differ in their line ends only, and old_string with "
            "exactly these line ends is not in the file: nothing would change."
        )
    lines = _lines_of(text, starts)
    if len(starts) > 1 and not wish.replace_all:
        raise ToolError(_not_unique(lines))
    pieces: list[str] = []
    done = 0
    for start in starts:
        pieces += [text[done:start], wish.new]
        done = start + len(wish.old)
    return Replaced("".join([*pieces, text[done:]]), lines)


def _literal_places(text: str, wanted: str) -> Iterator[int]:
    """Find a text as it is, but never one half of a CRLF."""
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        splits = (wanted[0] == "\n" and text[start - 1 : start] == "\r") or (
            wanted[-1] == "\r" and text[end : end + 1] == "\n"
        )
        if not splits:
            yield start
        start = text.find(wanted, start + 1 if splits else end)


def _without_numbers(old: str, new: str) -> tuple[str, str]:
    """Strip the prefixes of `read_file`, when every line of the old text has one (FILE-02)."""
    lines = old.split("\n")
    body = lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    if not all(_NUMBERED.match(line) for line in body):
        return old, new
    return (_strip(old), _strip(new)) if _strip(old) else (old, new)


def _strip(text: str) -> str:
    return "\n".join(
        _NUMBERED.sub("", line, count=1) if _NUMBERED.match(line) else line
        for line in text.split("\n")
    )


def _not_unique(lines: tuple[int, ...]) -> str:
    count = f"at least {_MAX_COUNTED}" if len(lines) >= _MAX_COUNTED else str(len(lines))
    listed = ", ".join(str(line) for line in lines[:_MAX_LISTED_LINES])
    more = ", ..." if len(lines) > _MAX_LISTED_LINES else ""
    return (
        f"old_string occurs {count} times, on lines {listed}{more}. Add text around it until it "
        "is unique, or set replace_all to true."
    )


def _not_found(text: str, wanted: str) -> str:
    lines = text.split("\n", _MAX_SCANNED_LINES)[:_MAX_SCANNED_LINES]
    wanted_lines = wanted.strip("\n").split("\n")
    at = _nearest(lines, wanted_lines)
    if at is None:
        return "old_string was not found, nor anything like it. Read the file again."
    near = lines[at : at + len(wanted_lines)]
    same_words = [line.split() for line in near] == [line.split() for line in wanted_lines]
    hint = " It differs in white space only." if same_words else ""
    shown = near[:_MAX_PREVIEW_LINES]
    numbered = "\n".join(f"{at + 1 + index}\t{line}" for index, line in enumerate(shown))
    cut = len(near) > len(shown) or len(numbered) > _MAX_PREVIEW_CHARS
    preview = showable_name(numbered[:_MAX_PREVIEW_CHARS]) + ("\n..." if cut else "")
    return (
        f"old_string was not found.{hint} The nearest text is on lines {at + 1} to "
        f"{at + len(near)}:\n{preview}\nCopy the text exactly as it stands in the file."
    )


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """Return the index of the line where the text most like the wanted one starts."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault(" ".join(line.split()), []).append(index)
    votes: Counter[int] = Counter()
    for index, line in enumerate(wanted):
        key = " ".join(line.split())
        for place in places.get(key, [])[:_MAX_VOTES_PER_LINE] if len(key) > 1 else []:
            votes[max(0, place - index)] += 1
    if votes:
        most = max(votes.values())
        return min(place for place, count in votes.items() if count == most)
    index, longest = max(enumerate(wanted), key=lambda item: len(item[1].strip()))
    target = " ".join(longest.split())[:_MAX_FUZZY_CHARS]
    candidates = [
        key
        for key in places
        if len(target) / 2 <= len(key) <= min(len(target) * 2, _MAX_FUZZY_CHARS)
    ][:_MAX_FUZZY_LINES]
    close = get_close_matches(target, candidates, n=1, cutoff=0.6)
    return max(0, places[close[0]][0] - index) if close else None
