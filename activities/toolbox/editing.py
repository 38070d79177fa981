"""The tools that change a part of a file: edit and multi_edit."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from activities.toolbox.capping import counted
from activities.toolbox.text_edits import Replacement, replace
from activities.toolbox.workspace import (
    Original,
    Place,
    Workspace,
    read_original,
    replace_file,
)
from zidane_core.authoring import ToolContext, ToolError, tool
from zidane_core.content import clean_text
from zidane_core.values import UserInput

MAX_EDITED_BYTES = 16 * 1024 * 1024
"""Largest file that is changed in memory."""
_MAX_LISTED_LINES = 10
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

OldString = Annotated[
    str,
    Field(description="Text to replace, exactly as in the file and unique in it. Empty: new file."),
]
NewString = Annotated[str, Field(description="Text to put in its place.")]
ReplaceAll = Annotated[bool, Field(description="Replace every occurrence.")]


class EditStep(UserInput):
    """One replacement of a multi_edit call."""

    old_string: OldString
    new_string: NewString
    replace_all: ReplaceAll = False


@tool(
    description=(
        "Replace text in a file. old_string must occur exactly once, unless replace_all is true; "
        "include enough lines around it. Line ends are matched and kept as the file has them. "
        "An empty old_string makes a new file of new_string."
    )
)
def edit(
    ctx: ToolContext,
    path: str,
    old_string: OldString,
    new_string: NewString,
    replace_all: ReplaceAll = False,
) -> str:
    """Replace a text in a file, in one write.

    Not idempotent: after a success `old_string` is gone, and nothing tells an edit that was
    done from one that never fitted, so a killed call is interrupted and not repeated.

    Returns:
        A text that starts with "Edited"; outcome `edited`, or `created` for a new file.

    Raises:
        ToolError: The text is not found, not unique, or nothing would change; the file is then
            untouched.

    Implements: FILE-02, FILE-10, FILE-11, FILE-12, TOOL-09, K-FILES-01, K-FILES-02, K-FILES-03.
    """
    step = EditStep(old_string=old_string, new_string=new_string, replace_all=replace_all)
    return _change(ctx, path, (step,))


@tool(
    description=(
        "Make several replacements in one file, in order, each on the result of the one before. "
        "All or none: when one fails, the file is left as it was."
    )
)
def multi_edit(
    ctx: ToolContext,
    path: str,
    edits: Annotated[list[EditStep], Field(min_length=1)],
) -> str:
    """Make replacements in order in memory, then write once.

    Returns:
        A text that starts with "Edited"; outcome `edited`, or `created` when the first edit's
        `old_string` is empty and made the file.

    Raises:
        ToolError: Names the first edit that failed, counted from 1; the file is then untouched.

    Implements: FILE-10, FILE-11, FILE-12, TOOL-09, K-FILES-04.
    """
    # Whoever calls may hand over what the model sent as it is.
    steps = [EditStep.model_validate(step) for step in edits]
    if not steps:
        raise ToolError("edits is empty. Give at least one edit.")
    return _change(ctx, path, steps)


def _change(ctx: ToolContext, path: str, steps: Sequence[EditStep]) -> str:
    ctx.report_outcome("failed")
    place = Workspace.at(ctx.workspace).place(path)
    original = read_original(place, max_bytes=MAX_EDITED_BYTES)
    if original is None:
        return _create(ctx, place, steps)
    before = _text_of(original, place)
    after, lines = _apply(before, steps, first_number=1, of=len(steps), place=place)
    if after == before:
        raise ToolError(f"{place.shown!r} was not changed: the edits cancel each other out.")
    replace_file(place, after.encode("utf-8", "surrogateescape"), original=original)
    ctx.report_outcome("edited")
    ctx.metadata["path"] = place.shown
    return f"Edited {place.shown}: {counted(len(lines), 'replacement')}, {_listed(lines)}."


def _create(ctx: ToolContext, place: Place, steps: Sequence[EditStep]) -> str:
    first, rest = steps[0], steps[1:]
    if first.old_string:
        raise ToolError(
            f"There is no file {place.shown!r}. Check the path with list_files or glob; to make a "
            "new file, use write_file."
        )
    if not first.new_string:
        raise ToolError(
            "old_string and new_string are both empty: nothing would change. To make an empty "
            "file, use write_file."
        )
    text, _ = _apply(clean_text(first.new_string), rest, first_number=2, of=len(steps), place=place)
    replace_file(place, text.encode(), original=None)
    ctx.report_outcome("created")
    ctx.metadata["path"] = place.shown
    return f"Edited {place.shown}: made the file, {counted(len(text.splitlines()), 'line')}."


def _apply(
    text: str, steps: Sequence[EditStep], *, first_number: int, of: int, place: Place
) -> tuple[str, list[int]]:
    lines: list[int] = []
    for number, step in enumerate(steps, first_number):
        wish = Replacement(
            clean_text(step.old_string), clean_text(step.new_string), step.replace_all
        )
        try:
            done = replace(text, wish)
        except ToolError as error:
            which = f"edit {number} of {of} failed, none was made: " if of > 1 else ""
            raise ToolError(f"{place.shown!r} is unchanged: {which}{error}") from error
        text = done.text
        lines += done.lines
    return text, lines


def _text_of(original: Original, place: Place) -> str:
    content = original.content
    if content is None:
        raise ToolError(
            f"{place.shown!r} has {original.status.st_size} bytes, at most {MAX_EDITED_BYTES} can "
            "be edited. Use the shell tool."
        )
    if content.startswith(_UTF16_MARKS) or b"\0" in content:
        raise ToolError(
            f"{place.shown!r} is not UTF-8 text but binary, or text in UTF-16. Use the shell tool."
        )
    return content.decode("utf-8", "surrogateescape")


def _listed(lines: list[int]) -> str:
    listed = ", ".join(str(line) for line in lines[:_MAX_LISTED_LINES])
    more = ", ..." if len(lines) > _MAX_LISTED_LINES else ""
    return f"line {listed}" if len(lines) == 1 else f"lines {listed}{more}"
