"""What a request leaves out of a history that a provider refused, and how far back it reaches."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from zidane_core.content import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    RedactedThinkingBlock,
    ResultContent,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    VideoBlock,
    tool_result_to_text,
)
from zidane_core.errors import HistoryRepairKind
from zidane_core.session import HistoryRepair, Turn
from zidane_core.values import Json

MAX_SHORTENINGS = 3
"""Levels of `long`: the newest half, quarter, eighth of the conversation stays as it is."""
KEPT_CHARS = 400
"""Head of a long text, argument or result that stays."""
KEPT_PROMPT_CHARS = 4_000
"""Head of what a user wrote that stays: the task itself must not be lost."""

_REASONING = (ThinkingBlock, RedactedThinkingBlock, ProviderReasoningBlock)
_SERVER_TOOL = (ServerToolUseBlock, ServerToolResultBlock)
_MEDIA = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)


def reach(kind: HistoryRepairKind, level: int, path: Sequence[Turn]) -> str | None:
    """Return the id of the last turn that a repair touches; None when it would change nothing.

    Args:
        kind: `thinking` reaches the closed turns, those before the last message of a person or
            of the loop, and the open ones too only when no closed one holds reasoning; `media`
            and `history` reach everything; `long` leaves the newest part of the path alone.
        level: For `long`: 1 leaves half of the characters alone, 2 a quarter, 3 an eighth.
        path: The turns from the root to the head.

    Implements: K-ANTHROPIC-09, LOOP-14.
    """
    if not path:
        return None
    if kind == "thinking":
        closed = _closed(path)
        has_reasoning = any(isinstance(b, _REASONING) for turn in closed for b in turn.content)
        return closed[-1].id if has_reasoning else path[-1].id
    if kind != "long":
        return path[-1].id
    index = _first_kept(path, level) - 1
    while index >= 0 and left_out("long", path[index]) == path[index].content:
        index -= 1
    return path[index].id if index >= 0 else None


def left_out(kind: HistoryRepairKind, turn: Turn) -> tuple[ContentBlock, ...]:
    """Return the turn's content without what a repair of that kind leaves out."""
    blocks: Iterable[ContentBlock] = turn.content
    if kind in ("thinking", "history", "long"):
        blocks = (block for block in blocks if not isinstance(block, _REASONING))
    if kind in ("media", "history", "long"):
        blocks = map(_without_media, blocks)
    if kind == "history":
        blocks = (block for block in blocks if not isinstance(block, _SERVER_TOOL))
    if kind == "long":
        kept = KEPT_PROMPT_CHARS if turn.role == "user" else KEPT_CHARS
        blocks = (_shortened(block, kept) for block in blocks)
    return tuple(blocks)


def furthest(
    repairs: Iterable[HistoryRepair], order: Mapping[str, int]
) -> dict[HistoryRepairKind, int]:
    """Return how far each kind of repair reaches, as an index into the path.

    Args:
        repairs: Those of the path's turns and of the request.
        order: Index of each turn of the path by its id; a repair that reaches none is void.
    """
    found: dict[HistoryRepairKind, int] = {}
    for repair in repairs:
        at = order.get(repair.through, -1)
        if at >= 0:
            found[repair.kind] = max(at, found.get(repair.kind, -1))
    return found


def _closed(path: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns before the last user turn that is more than results."""
    for index in range(len(path) - 1, -1, -1):
        turn = path[index]
        if turn.role == "user" and any(not isinstance(b, ToolResultBlock) for b in turn.content):
            return path[:index]
    return ()


def _first_kept(path: Sequence[Turn], level: int) -> int:
    """Return the index of the first turn that stays whole."""
    sizes = [sum(map(_chars, turn.content)) for turn in path]
    room = sum(sizes) >> level
    # The newest results are what the model is about to answer; only the last level cuts them.
    first = len(path) if level >= MAX_SHORTENINGS else len(path) - 1
    for index in range(len(path) - 1, -1, -1):
        room -= sizes[index]
        if room < 0:
            return min(index + 1, first)
    return 0


def _chars(block: ContentBlock) -> int:
    match block:
        case TextBlock() | ThinkingBlock():
            return len(block.text)
        case ToolCallBlock():
            return len(str(block.input))
        case ToolResultBlock():
            output = block.output
            return len(output) if isinstance(output, str) else sum(map(_chars, output))
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            return len(block.data or "")
        case _:
            return 0


def _without_media(block: ContentBlock) -> ContentBlock:
    if isinstance(block, _MEDIA):
        return as_marker(block)
    if not isinstance(block, ToolResultBlock) or isinstance(block.output, str):
        return block
    output = tuple(as_marker(part) if isinstance(part, _MEDIA) else part for part in block.output)
    return block.model_copy(update={"output": output})


def as_marker(block: ResultContent) -> TextBlock:
    """Return the text that stands for an attachment, such as `[image: image/png, 12 b64 bytes]`."""
    return TextBlock(text=tool_result_to_text((block,)))


def _shortened(block: ContentBlock, kept: int) -> ContentBlock:
    match block:
        case TextBlock():
            text = _head(block.text, kept)
            return block if text is block.text else block.model_copy(update={"text": text})
        case ToolCallBlock():
            arguments: Json = {key: _short_json(value) for key, value in block.input.items()}
            same = arguments == block.input
            return block if same else block.model_copy(update={"input": arguments})
        case ToolResultBlock():
            output = _short_output(block.output)
            return block if output is block.output else block.model_copy(update={"output": output})
        case _:
            return block


def _short_output(output: ToolOutput) -> ToolOutput:
    if isinstance(output, str):
        return _head(output, KEPT_CHARS)
    text = tool_result_to_text(output)
    return output if len(text) <= KEPT_CHARS else _head(text, KEPT_CHARS)


def _short_json(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return _head(value, KEPT_CHARS)
    if isinstance(value, list):
        return [_short_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _short_json(item) for key, item in value.items()}
    return value


def _head(text: str, kept: int) -> str:
    """Return the text's head with a note; the text itself when little would be saved."""
    note = f"\n[{len(text) - kept} characters left out: the conversation was too long]"
    return text if len(text) <= kept + len(note) else text[:kept] + note
