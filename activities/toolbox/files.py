"""The tools that read and write whole files: read_file and write_file."""

import base64
import difflib
import os
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, BinaryIO

from pydantic import Field

from activities.toolbox.capping import counted, fit_head, showable, showable_name, size_of
from activities.toolbox.workspace import Place, Workspace, open_file, read_original, replace_file
from zidane_core.authoring import ToolContext, ToolError, tool
from zidane_core.content import ImageBlock, TextBlock, ToolOutput, clean_text
from zidane_core.context.media import HANDLE_SCHEME

DEFAULT_READ_LINES = 2_000
DEFAULT_READ_BYTES = 65_536
MAX_READ_BYTES = 262_144
"""Most text that one read gives, whatever the call asks for (K-TEMPORAL-01)."""
MAX_IMAGE_BYTES = 5_000_000

_SNIFFED_BYTES = 8_192
_CHUNK_BYTES = 1_048_576
_MAX_COUNTED_BYTES = 64 * _CHUNK_BYTES
"""How far past the page the lines are still counted."""
_MAX_SIBLINGS = 5_000
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@tool(
    read_only=True,
    concurrency_safe=True,
    quick=True,
    description=(
        "Read a text file, with line numbers, or look at an image (PNG, JPEG, GIF, WebP). Long "
        "files come in pages; a note at the end says how to read on."
    ),
)
def read_file(
    ctx: ToolContext,
    path: str,
    offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1.")] = 1,
    limit: Annotated[
        int | None, Field(ge=1, description=f"Most lines to read; {DEFAULT_READ_LINES} by default.")
    ] = None,
    max_bytes: Annotated[
        int | None,
        Field(
            ge=1,
            description=f"Most bytes of text; {DEFAULT_READ_BYTES} by default, at most "
            f"{MAX_READ_BYTES}.",
        ),
    ] = None,
    line_numbers: Annotated[bool, Field(description="Put number and tab before each line.")] = True,
) -> ToolOutput:
    r"""Read a page of a file.

    Args:
        ctx: The call.
        path: In the workspace, or the handle of an attachment of the conversation.
        offset: First line, from 1.
        limit: Lines; 2,000 when None.
        max_bytes: UTF-8 bytes of the page, its note not counted; 65,536 when None. Images are
            not counted.
        line_numbers: Whether each line starts with its number and a tab.

    Returns:
        The lines, `\n` between them, and a note when lines or a part of a line were left out;
        for an image a text and an image block.

    Raises:
        ToolError: The file is missing (lists near names), binary, a folder, or too short.

    Implements: FILE-01, FILE-02, MED-01, K-TEMPORAL-01.
    """
    if path.startswith(HANDLE_SCHEME):
        return _attachment(ctx, path)
    place = Workspace.at(ctx.workspace).place(path)
    ctx.metadata["path"] = place.shown
    budget = min(max_bytes or DEFAULT_READ_BYTES, MAX_READ_BYTES)
    lines = max(1, limit or DEFAULT_READ_LINES)
    try:
        with open_file(place) as file:
            start = file.read(_SNIFFED_BYTES)
            media_type = _image_type(start)
            if media_type is not None:
                return _image(file, place, media_type)
            _check_text(start, file, place)
            page = _read_page(file, max(1, offset), lines, budget, numbered=line_numbers)
    except FileNotFoundError as error:
        raise ToolError(_missing(place)) from error
    return _page_text(page)


def _attachment(ctx: ToolContext, handle: str) -> ToolOutput:
    """Return an attachment of the conversation, which a request showed as its handle only."""
    found = ctx.attachments.wait(handle)
    if found is None:
        raise ToolError(
            f"{handle!r} names no attachment of this conversation. Use a handle as it stands in "
            "the conversation, or the path of a file."
        )
    return (TextBlock(text=handle), found)


@dataclass
class _Page:
    lines: list[str]
    last_line: int
    """Number of the last line shown; one less than the offset when there is none."""
    first_line: int
    lines_in_all: int = 0
    is_counted: bool = True
    """Whether `lines_in_all` is exact; if not, there are more."""
    cut_bytes: int = 0
    """Bytes left out of the last line, which alone was too long."""


def _read_page(file: BinaryIO, offset: int, limit: int, budget: int, *, numbered: bool) -> _Page:
    page = _Page([], offset - 1, offset)
    _go_to_line(file, offset)
    while len(page.lines) < limit and budget > 0:
        raw = file.readline(budget + len(_UTF8_MARK) + 1)
        if not raw:
            break
        prefix = f"{page.last_line + 1}\t" if numbered else ""
        line = raw.removeprefix(_UTF8_MARK) if page.last_line == 0 else raw
        is_whole = raw.endswith(b"\n")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        shown = showable(line)
        room = max(1, budget - size_of(prefix) - 1)
        if size_of(shown) > room:
            if page.lines:
                file.seek(-len(raw), os.SEEK_CUR)
                break
            head = fit_head(line, room)
            shown = showable(head)
            page.cut_bytes = len(line) - len(head) + (0 if is_whole else _skip_line(file))
        page.lines.append(prefix + shown)
        page.last_line += 1
        budget = room - size_of(shown)
    page.lines_in_all, page.is_counted = _count_lines(file, page.last_line)
    if not page.lines and (offset > 1 or page.lines_in_all):
        file.seek(0)
        count, _ = _count_lines(file, 0)
        raise ToolError(f"offset {offset} is past the end: the file has {count} lines.")
    return page


def _go_to_line(file: BinaryIO, line: int) -> None:
    """Go to the start of a line, or to the end when there is no such line."""
    file.seek(0)
    to_skip = line - 1
    while to_skip and (chunk := file.read(_CHUNK_BYTES)):
        ends = chunk.count(b"\n")
        if ends < to_skip:
            to_skip -= ends
            continue
        at = -1
        for _ in range(to_skip):
            at = chunk.index(b"\n", at + 1)
        file.seek(at + 1 - len(chunk), os.SEEK_CUR)
        to_skip = 0


def _skip_line(file: BinaryIO) -> int:
    """Go to the end of the line, or some way; return the bytes skipped, its end not counted."""
    skipped = 0
    while skipped < _MAX_COUNTED_BYTES and (piece := file.readline(_CHUNK_BYTES)):
        if piece.endswith(b"\n"):
            return skipped + len(piece.removesuffix(b"\n").removesuffix(b"\r"))
        skipped += len(piece)
    return skipped


def _count_lines(file: BinaryIO, seen: int) -> tuple[int, bool]:
    """Return `seen` and the lines from here on, and whether the count came to the end."""
    counted = 0
    last = b"\n"
    while chunk := file.read(_CHUNK_BYTES):
        seen += chunk.count(b"\n")
        last = chunk[-1:]
        counted += len(chunk)
        if counted >= _MAX_COUNTED_BYTES:
            return seen, not file.read(1)
    return seen + (last != b"\n"), True


def _page_text(page: _Page) -> str:
    if not page.lines:
        return "[The file is empty.]"
    notes: list[str] = []
    if page.cut_bytes:
        notes.append(
            f"[Line {page.last_line} is too long to show: its last {page.cut_bytes} bytes were "
            "left out. Use the shell tool, such as cut -c, to see them.]"
        )
    if page.last_line < page.lines_in_all or not page.is_counted:
        count = f"{page.lines_in_all}" if page.is_counted else f"more than {page.lines_in_all}"
        notes.append(
            f"[Lines {page.first_line} to {page.last_line} of {count} are shown. Read on with "
            f"offset={page.last_line + 1}.]"
        )
    return "\n".join([*page.lines, *notes])


def _check_text(start: bytes, file: BinaryIO, place: Place) -> None:
    if start.startswith(_UTF16_MARKS):
        what, how = "is text in UTF-16", "iconv -f UTF-16 -t UTF-8"
    elif b"\0" in start:
        what, how = "is binary", "file, strings or xxd"
    else:
        return
    size = os.fstat(file.fileno()).st_size
    raise ToolError(
        f"{place.shown!r} {what} ({size} bytes), which read_file does not show. Use the shell "
        f"tool, such as {how}."
    )


def _image_type(start: bytes) -> str | None:
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return None


def _image(file: BinaryIO, place: Place, media_type: str) -> ToolOutput:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{place.shown!r} is an image of {size} bytes; at most {MAX_IMAGE_BYTES} can be shown. "
            "Make a smaller copy with the shell tool."
        )
    file.seek(0)
    encoded = base64.b64encode(file.read(MAX_IMAGE_BYTES)).decode("ascii")
    return (
        TextBlock(text=f"{place.shown}: {media_type}, {size} bytes."),
        ImageBlock(media_type=media_type, data=encoded, name=place.path.name),
    )


def _missing(place: Place) -> str:
    folder = place.path.parent
    while not folder.is_dir():
        folder = folder.parent
    where = Place(place.root, folder.relative_to(place.root).parts).shown
    wanted = place.parts[len(folder.relative_to(place.root).parts)]
    with os.scandir(folder) as entries:
        names = [showable_name(entry.name) for entry in islice(entries, _MAX_SIBLINGS)]
    near = [name for name in sorted(names) if name.lower() == wanted.lower()]
    near += [name for name in difflib.get_close_matches(wanted, sorted(names)) if name not in near]
    hint = f"Near names in {where!r}: {near}." if near else f"Nothing in {where!r} is called alike."
    return f"There is no file {place.shown!r}. {hint} Use glob or list_files to find it."


@tool(
    idempotent=True,
    description=(
        "Write a whole file, in place of what it held; missing folders are made. To change a part "
        "of a file, use edit."
    ),
)
def write_file(
    ctx: ToolContext,
    path: str,
    content: Annotated[str, Field(description="All that the file shall hold, as it is.")],
) -> str:
    """Write a file in one step; its mode is kept, links inside the workspace are written through.

    Idempotent: a repeated call finds its own content and reports `noop`.

    Returns:
        A text that starts with "Created", "Updated" or "No change needed"; outcomes `created`,
        `updated` and `noop`.

    Raises:
        ToolError: The path is a folder, read-only or out of reach; nothing is changed.

    Implements: FILE-10, FILE-12, TOOL-09, K-FILES-06.
    """
    ctx.report_outcome("failed")
    place = Workspace.at(ctx.workspace).place(path)
    wanted = clean_text(content).encode()
    original = read_original(place, max_bytes=len(wanted))
    ctx.metadata["path"] = place.shown
    if original is not None and original.content == wanted:
        ctx.report_outcome("noop")
        return f"No change needed: {place.shown} already holds exactly this."
    replace_file(place, wanted, original=original)
    ctx.report_outcome("created" if original is None else "updated")
    done = "Created" if original is None else "Updated"
    size = f"{counted(len(content.splitlines()), 'line')}, {counted(len(wanted), 'byte')}"
    return f"{done} {place.shown}: {size}."
