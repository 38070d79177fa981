"""The tools that find files and lines: list_files, glob and grep."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Annotated

from pydantic import Field
from wcmatch import glob as wildcards
from wcmatch._wcparse import PatternLimitException

from activities.toolbox.capping import cap_lines, showable, showable_name, size_of
from activities.toolbox.ripgrep import (
    MAX_LINE_BYTES,
    Line,
    Query,
    find_ripgrep,
    list_all,
)
from activities.toolbox.ripgrep import search as search_by_ripgrep
from activities.toolbox.walking import Entry, Walk
from activities.toolbox.workspace import Place, Workspace, open_file
from zidane_core.authoring import CancelFlag, ToolContext, ToolError, tool

MAX_RESULT_BYTES = 32_768
DEFAULT_DEPTH = 2
DEFAULT_MAX_RESULTS = 100
SEARCH_TIMEOUT_S = 60

_MAX_ENTRIES = 50_000
_MAX_COUNTED = 10_000
"""How many matches past those shown are counted before the search stops."""
_MAX_FILE_BYTES = 8_388_608
_SNIFFED_BYTES = 8_192
_GLOB_FLAGS = (
    wildcards.GLOBSTAR
    | wildcards.BRACE
    | wildcards.DOTGLOB
    | wildcards.MATCHBASE
    | wildcards.FORCEUNIX
)

PathArgument = Annotated[str, Field(description="Folder to start in; the workspace by default.")]


@tool(
    read_only=True,
    concurrency_safe=True,
    quick=True,
    description=(
        "List what is in a folder, folders with a slash at the end. Leaves out what .gitignore "
        "names; name an ignored folder as path to see into it."
    ),
)
def list_files(
    ctx: ToolContext,
    path: PathArgument = ".",
    depth: Annotated[int, Field(ge=1, le=20, description="How many levels down.")] = DEFAULT_DEPTH,
) -> str:
    """List a folder's entries, sorted, each folder before its content.

    Args:
        ctx: The call.
        path: A folder of the workspace.
        depth: 1 for its own entries only; 2 by default.

    Returns:
        A path a line, relative to the workspace; links with their target, never followed. At
        most 32,768 bytes and a note of how many were left out.

    Raises:
        ToolError: The path is no folder.

    Implements: K-SEARCH-01, K-TEMPORAL-01.
    """
    place = Workspace.at(ctx.workspace).place(path)
    if not place.path.is_dir():
        raise ToolError(
            f"{place.shown!r} is no folder. Use read_file for a file, glob to find one."
        )
    walk = Walk(place, depth)
    entries = list(islice(walk, _MAX_ENTRIES))
    lines, left_out = cap_lines(
        (_shown(place, entry) for entry in entries), max_bytes=MAX_RESULT_BYTES
    )
    if not lines:
        lines = [f"[{place.shown} is empty.]"]
    if left_out:
        more = "more than " if len(entries) == _MAX_ENTRIES else ""
        lines.append(f"[{more}{left_out} more left out. Name a folder inside, or a smaller depth.]")
    if walk.ignored:
        lines.append(f"[{walk.ignored} ignored by .gitignore not shown.]")
    return "\n".join(lines)


def _shown(place: Place, entry: Entry) -> str:
    name = showable_name(entry.path)
    if entry.kind == "folder":
        return f"{name}/"
    if entry.kind == "link":
        try:
            return f"{name} -> {showable_name(str(place.root.joinpath(*entry.parts).readlink()))}"
        except OSError:
            return name
    return name


@tool(
    read_only=True,
    concurrency_safe=True,
    quick=True,
    description=(
        "Find files by a pattern such as **/*.py, src/*.{ts,tsx} or README*. A pattern without "
        "a slash matches names in every folder. Leaves out what .gitignore names."
    ),
)
async def glob(
    ctx: ToolContext,
    pattern: Annotated[
        str, Field(description="Relative to the workspace; knows *, **, ?, [], {}.")
    ],
) -> str:
    """Find files by the form of their path.

    Returns:
        A path a line, relative to the workspace, sorted; folders and links are left out. At most
        32,768 bytes and a note of how many were left out.

    Raises:
        ToolError: The pattern leads outside of the workspace or expands to too many.

    Implements: K-SEARCH-01, K-TEMPORAL-01.
    """
    workspace = Workspace.at(ctx.workspace)
    place = workspace.place(".")
    matches = _matcher(_inside(workspace, ctx.workspace, pattern))
    program = find_ripgrep()
    files = (
        await list_all(program, place)
        if program
        else await asyncio.to_thread(lambda: [entry.path for entry in _files(place, ctx.cancelled)])
    )
    found = sorted(file for file in files if matches(file))
    if not found:
        return f"No file matches {pattern!r}. Files that .gitignore names are not looked at."
    lines, left_out = cap_lines(map(showable_name, found), max_bytes=MAX_RESULT_BYTES)
    if left_out:
        lines.append(f"[{left_out} more left out. Use a narrower pattern.]")
    return "\n".join(lines)


def _inside(workspace: Workspace, root: str, pattern: str) -> str:
    for prefix in (root, str(workspace.root)):
        pattern = pattern.removeprefix(prefix.rstrip("/") + "/")
    pattern = pattern.removeprefix("./")
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolError(f"The pattern {pattern!r} leads outside of the workspace.")
    return pattern


def _matcher(pattern: str) -> Callable[[str], bool]:
    try:
        return wildcards.compile(pattern, flags=_GLOB_FLAGS).match
    except (PatternLimitException, ValueError) as error:
        raise ToolError(f"{pattern!r} is not a usable pattern: {error}.") from error


@tool(
    read_only=True,
    concurrency_safe=True,
    description=(
        "Search file contents for a regular expression (ripgrep syntax, a line at a time). Shows "
        "path:line:text; lines of context have - in place of :. Leaves out what .gitignore names, "
        "and binary files."
    ),
)
async def grep(
    ctx: ToolContext,
    pattern: Annotated[str, Field(description="Regular expression; escape ( [ { . to mean them.")],
    path: Annotated[str, Field(description="File or folder; the workspace by default.")] = ".",
    glob: Annotated[str | None, Field(description="Only files like this, such as *.py.")] = None,
    ignore_case: bool = False,
    context: Annotated[int, Field(ge=0, le=20, description="Lines around each match.")] = 0,
    max_results: Annotated[int, Field(ge=1, le=1_000)] = DEFAULT_MAX_RESULTS,
) -> str:
    """Find lines, files in the order of their paths.

    Args:
        ctx: The call.
        pattern: Matched within single lines. Without ripgrep it is Python's `re`.
        path: In the workspace.
        glob: As in the glob tool.
        ignore_case: Whether upper and lower case are alike.
        context: Lines before and after each match.
        max_results: Matching lines to show; 100 by default.

    Returns:
        A line a match, at most 400 bytes of each and 32,768 bytes in all, and a note of how many
        matches were left out.

    Raises:
        ToolError: The pattern is not a regular expression, the path does not exist, or the search
            took over 60 s.

    Implements: K-SEARCH-01, K-TEMPORAL-01.
    """
    place = Workspace.at(ctx.workspace).place(path)
    if not place.path.exists():
        raise ToolError(
            f"There is no {place.shown!r} to search in. Use list_files to find the path."
        )
    query = Query(pattern, glob, ignore_case, context)
    results = _Results(max_results, with_gaps=context > 0)
    program = find_ripgrep()
    try:
        async with asyncio.timeout(SEARCH_TIMEOUT_S):
            if program is not None:
                await results.take_all(search_by_ripgrep(program, place, query))
            else:
                await asyncio.to_thread(
                    lambda: results.take(_search(place, query, ctx.cancelled)),
                )
    except TimeoutError:
        raise ToolError(
            f"The search took over {SEARCH_TIMEOUT_S} s. Name a folder as path, or a glob."
        ) from None
    return results.text() or f"No match for {pattern!r} in {place.shown}."


class _Results:
    """Takes lines while they fit, then only counts matches, up to a bound."""

    def __init__(self, max_results: int, *, with_gaps: bool) -> None:
        self._max_results = max_results
        self._with_gaps = with_gaps
        self._lines: list[str] = []
        self._bytes = 0
        self._matches = 0
        self._left_out = 0
        self._last: Line | None = None

    async def take_all(self, lines: AsyncGenerator[Line, None]) -> None:
        async with aclosing(lines) as stream:
            async for line in stream:
                if not self._add(line):
                    return

    def take(self, lines: Iterator[Line]) -> None:
        for line in lines:
            if not self._add(line):
                return

    def _add(self, line: Line) -> bool:
        if self._left_out or (line.is_match and self._matches == self._max_results):
            self._left_out += line.is_match
            return self._left_out <= _MAX_COUNTED
        mark = ":" if line.is_match else "-"
        shown = [f"{line.path}{mark}{line.number}{mark}{line.text}"]
        last = self._last
        if self._with_gaps and last and (last.path, last.number + 1) != (line.path, line.number):
            shown.insert(0, "--")
        size = sum(size_of(text) + 1 for text in shown)
        if self._bytes + size > MAX_RESULT_BYTES:
            # What is near a match that fits no more is left out with it.
            self._max_results = self._matches
            self._left_out += line.is_match
            return True
        self._lines += shown
        self._bytes += size
        self._matches += line.is_match
        self._last = line
        return True

    def text(self) -> str:
        if not self._left_out:
            return "\n".join(self._lines)
        number = (
            f"more than {_MAX_COUNTED} matches"
            if self._left_out > _MAX_COUNTED
            else f"{self._left_out} more {'match' if self._left_out == 1 else 'matches'}"
        )
        note = f"[{number} left out. Narrow the pattern, the path or the glob.]"
        return "\n".join([*self._lines, note])


def _files(place: Place, cancelled: CancelFlag) -> Iterator[Entry]:
    for entry in Walk(place):
        if cancelled.is_set():
            return
        if entry.kind == "file":
            yield entry


def _search(place: Place, query: Query, cancelled: CancelFlag) -> Iterator[Line]:
    """Search without ripgrep."""
    try:
        wanted = re.compile(query.pattern, re.IGNORECASE if query.ignore_case else 0)
    except re.error as error:
        raise ToolError(f"{query.pattern!r} is not a regular expression: {error}.") from error
    matches = _matcher(query.glob) if query.glob else None
    if place.path.is_file():
        yield from _search_file(place, wanted, query.context)
        return
    for entry in _files(place, cancelled):
        if matches is None or matches(entry.path):
            yield from _search_file(Place(place.root, entry.parts), wanted, query.context)


def _search_file(place: Place, wanted: re.Pattern[str], context: int) -> Iterator[Line]:
    try:
        with open_file(place) as file:
            raw = file.read(_MAX_FILE_BYTES)
    except (OSError, ToolError):
        return
    if b"\0" in raw[:_SNIFFED_BYTES]:
        return
    lines = [showable(line.removesuffix(b"\r")) for line in raw.removesuffix(b"\n").split(b"\n")]
    hits = {index for index, line in enumerate(lines) if wanted.search(line)}
    near = {at for hit in hits for at in range(hit - context, hit + context + 1)}
    for index in sorted(near & set(range(len(lines)))):
        text = lines[index][:MAX_LINE_BYTES]
        yield Line(showable_name(place.shown), index + 1, text, is_match=index in hits)
