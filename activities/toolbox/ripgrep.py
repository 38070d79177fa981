"""Calls ripgrep: which files there are, and which lines match."""

import asyncio
import re
import shutil
import sysconfig
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from activities.toolbox.capping import showable
from activities.toolbox.walking import HIDDEN_NAMES
from activities.toolbox.workspace import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, Place
from zidane_core.authoring import ToolError

MAX_LINE_BYTES = 400
"""Of a longer line a beginning is shown."""

_STREAM_LIMIT_BYTES = 1_048_576
_CHUNK_BYTES = 262_144
_MAX_ERROR_BYTES = 4_096
_FAILED = 2
_NUMBER = re.compile(rb"([0-9]+)([:-])")

# Own rules only: what lies above the workspace, or in the user's settings, must not hide files.
_COMMON = (
    "--no-config",
    "--no-messages",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--no-require-git",
    "--hidden",
    "--no-follow",
    *(f"--glob=!**/{name}" for name in HIDDEN_NAMES),
    f"--glob=!{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}",
)


@dataclass(frozen=True)
class Line:
    """A line of a file that matches, or stands near one that does."""

    path: str
    """Relative to the workspace's root."""
    number: int
    text: str
    is_match: bool


def find_ripgrep() -> str | None:
    """Return the path of ripgrep: the installed package's own, else one on PATH, else None."""
    return shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg")


async def list_all(program: str, place: Place) -> list[str]:
    """Return every file of the workspace that git does not ignore, links left out, unsorted."""
    raw = bytearray()
    async with aclosing(_output(program, [*_COMMON, "--files", "--null", "."], place)) as chunks:
        async for chunk in chunks:
            raw += chunk
    names = bytes(raw).split(b"\0")
    return [name.removeprefix(b"./").decode("utf-8", "surrogateescape") for name in names if name]


@dataclass(frozen=True)
class Query:
    """What to look for."""

    pattern: str
    glob: str | None = None
    ignore_case: bool = False
    context: int = 0
    """Lines to show before and after each match."""


async def search(program: str, place: Place, query: Query) -> AsyncGenerator[Line, None]:
    """Give the matching lines and those near them, files in the order of their paths.

    Close the iterator to stop the search.

    Raises:
        ToolError: The pattern or the glob is not one.
    """
    arguments = [
        *_COMMON,
        *(f"--ignore-file={path}" for path in _outer_ignore_files(place)),
        *_glob_arguments(query.glob),
        "--no-heading",
        "--with-filename",
        "--line-number",
        "--null",
        "--color=never",
        "--sort=path",
        f"--max-columns={MAX_LINE_BYTES}",
        "--max-columns-preview",
        f"--context={query.context}",
        "--ignore-case" if query.ignore_case else "--case-sensitive",
        f"--regexp={query.pattern}",
        "--",
        "/".join(place.parts) or ".",
    ]
    rest = b""
    async with aclosing(_output(program, arguments, place)) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for raw in lines:
                line = _parse(raw)
                if line is not None:
                    yield line


def _parse(raw: bytes) -> Line | None:
    path, separator, rest = raw.partition(b"\0")
    number = _NUMBER.match(rest)
    if not separator or number is None:
        return None
    text = showable(rest[number.end() :].removesuffix(b"\r"))
    name = showable(path.removeprefix(b"./"))
    return Line(name, int(number[1]), text, is_match=number[2] == b":")


def _outer_ignore_files(place: Place) -> list[str]:
    """Return the .gitignore files above the folder to search, relative to the root.

    Ripgrep reads their anchored patterns from the root, which is right for the root's own file.
    """
    folders = [place.parts[:depth] for depth in range(len(place.parts))]
    files = ["/".join((*parts, ".gitignore")) for parts in folders]
    return [file for file in files if (place.root / file).is_file()]


def _glob_arguments(glob: str | None) -> list[str]:
    if glob is None:
        return []
    name = glob.removeprefix("**/")
    if "/" in name:
        return [f"--glob={glob}"]
    # A type, unlike a glob, does not bring back files that git ignores.
    return [f"--type-add=wanted:{name}", "--type=wanted"]


async def _output(
    program: str, arguments: Sequence[str], place: Place
) -> AsyncGenerator[bytes, None]:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            cwd=place.root,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=_STREAM_LIMIT_BYTES,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"The search cannot be started: {error}.") from error
    assert process.stdout is not None
    assert process.stderr is not None
    complaint = asyncio.create_task(process.stderr.read(_MAX_ERROR_BYTES))
    is_quiet = True
    try:
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            is_quiet = False
            yield chunk
        if await process.wait() == _FAILED and is_quiet and (said := await complaint):
            raise ToolError(f"The search failed: {showable(said).strip()}")
    finally:
        complaint.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
