"""Reads of a file that a later edit of the same run made untrue: stubs, or a notice."""

from collections.abc import Iterator, Mapping, Sequence, Set

from zidane_core.content import ContentBlock, ToolCallBlock, ToolResultBlock, tool_result_to_text
from zidane_core.session import Message, Turn

READ_TOOLS = frozenset({"read_file"})
EDIT_TOOLS = frozenset({"edit", "multi_edit", "write_file"})
OUTCOME_KEY = "outcome"
"""Key of a result's metadata that holds the outcome its tool reported."""

_CHANGED = frozenset({"created", "updated", "edited"})
_SUCCESS_PREFIXES = ("Edited ", "Created ", "Updated ")


def stale_reads(messages: Sequence[Message], runs: Mapping[str, str | None]) -> Mapping[str, str]:
    """Return the stub of each stale read by its call id, in the order in which they became so.

    A read is stale from the message on that reports a success of an edit of the same path in the
    same run; errors, failed edits and those that changed nothing do not count.

    Args:
        messages: In order; every call before its result.
        runs: The run of each call by its id in the messages; calls that it does not name count
            as one run.

    Implements: FILE-07, G-17.
    """
    reads: dict[tuple[str | None, str], list[str]] = {}
    stubs: dict[str, str] = {}
    for call, result in _answered(block for message in messages for block in message.content):
        run = runs.get(call.id)
        if call.name in READ_TOOLS and not result.is_error:
            for path in paths_of(call, result):
                reads.setdefault((run, path), []).append(call.id)
        elif has_changed(call, result):
            for path in sorted(paths_of(call, result)):
                for call_id in reads.pop((run, path), ()):
                    stubs.setdefault(call_id, _stub(path))
    return stubs


def with_stubs(messages: tuple[Message, ...], stubs: Mapping[str, str]) -> tuple[Message, ...]:
    """Return the messages with the stubs in place of results; the same tuple without stubs.

    Each stub rewrites what was sent before, once.

    Implements: FILE-07, FILE-08.
    """
    return tuple(_stubbed(message, stubs) for message in messages) if stubs else messages


def stale_read_notice(
    turns: Sequence[Turn], run_id: str, call: ToolCallBlock, result: ToolResultBlock
) -> str | None:
    """Return the note to append to an edit's own result; None when no read became stale by it.

    Args:
        turns: The path up to the call's turn, that turn included.
        run_id: The run of the call.
        call: The edit.
        result: What it answered.

    Implements: FILE-08.
    """
    if not has_changed(call, result):
        return None
    ours = [turn for turn in turns if turn.run_id == run_id and not turn.aborted]
    wanted, stale = paths_of(call, result), False
    for earlier, answer in _answered(block for turn in ours for block in turn.content):
        if paths_of(earlier, answer) & wanted:
            if earlier.name in READ_TOOLS and not answer.is_error:
                stale = True
            elif has_changed(earlier, answer):
                stale = False
    return _notice(min(wanted)) if stale else None


def has_changed(call: ToolCallBlock, result: ToolResultBlock) -> bool:
    """Say whether a call changed a file: by its reported outcome, else by its text (G-17)."""
    if call.name not in EDIT_TOOLS or result.is_error:
        return False
    outcome = (result.metadata or {}).get(OUTCOME_KEY)
    if isinstance(outcome, str):
        return outcome in _CHANGED
    return tool_result_to_text(result.output).startswith(_SUCCESS_PREFIXES)


def paths_of(call: ToolCallBlock, result: ToolResultBlock) -> Set[str]:
    """Return the names of the file of a call: as it was asked for, and as the tool resolved it."""
    names = (call.input.get("path"), (result.metadata or {}).get("path"))
    return {_normal(name) for name in names if isinstance(name, str) and name}


def _answered(blocks: Iterator[ContentBlock]) -> Iterator[tuple[ToolCallBlock, ToolResultBlock]]:
    """Yield each call with its result, in the order of the results."""
    calls: dict[str, ToolCallBlock] = {}
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            calls[block.id] = block
        elif isinstance(block, ToolResultBlock) and block.call_id in calls:
            yield calls.pop(block.call_id), block


def _normal(path: str) -> str:
    """Return the path without `.`, doubled and trailing slashes, and `..` where it can go."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _stubbed(message: Message, stubs: Mapping[str, str]) -> Message:
    if not any(isinstance(b, ToolResultBlock) and b.call_id in stubs for b in message.content):
        return message
    content = tuple(
        block.model_copy(update={"output": stubs[block.call_id]})
        if isinstance(block, ToolResultBlock) and block.call_id in stubs
        else block
        for block in message.content
    )
    return message.model_copy(update={"content": content})


def _stub(path: str) -> str:
    return f"[Left out: {path} was changed after this read. Read it again if you need it.]"


def _notice(path: str) -> str:
    return (
        f"<stale-read>What read_file showed of {path} before is out of date now. Read it again "
        "before you rely on it.</stale-read>"
    )
