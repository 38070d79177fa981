"""Ages media off the wire: the oldest becomes a line of text with a handle to see it again.

The bytes stay in the session. Each pass is a pure function of the messages whose aged part only
grows when more follow, and it grows in steps: each writes the prompt cache anew from there.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from itertools import accumulate
from typing import NamedTuple, TypeGuard

from zidane_core.content import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ResultContent,
    TextBlock,
    ToolResultBlock,
    VideoBlock,
)
from zidane_core.context.image_size import image_size
from zidane_core.context_options import MediaBudget
from zidane_core.session import Message, Turn

MediaBlock = ImageBlock | AudioBlock | VideoBlock | DocumentBlock

HANDLE_SCHEME = "attachment://"
MAX_EDGE_PX = 2_000
"""Past 20 images Anthropic refuses a request with a longer edge."""
LARGE_IMAGE_KEEP_TURNS = 8
"""Newest messages whose images may have a longer edge (MED-03)."""


class Medium(NamedTuple):
    """One attachment of a message list, in order."""

    message: int
    """Index of its message."""
    block: MediaBlock


def media_of(content: Collection[ContentBlock]) -> Iterator[MediaBlock]:
    """Yield the attachments in order, those in results too; raw text documents are none."""
    for block in content:
        if _is_media(block):
            yield block
        elif isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
            yield from filter(_is_media, block.output)


def handles_of(turn: Turn) -> Iterator[tuple[str, str]]:
    """Yield the source (base64 or ref) of each attachment of a turn and its handle.

    A handle is `attachment://<turn id>/<n>`, n counted from 1 in the stored order (G-04).
    """
    for number, block in enumerate(media_of(turn.content), 1):
        yield _source(block), f"{HANDLE_SCHEME}{turn.id}/{number}"


def parse_handle(text: str) -> tuple[str, int] | None:
    """Return turn id and number of a handle; None when the text is none."""
    turn_id, _, number = text.removeprefix(HANDLE_SCHEME).rpartition("/")
    is_handle = text.startswith(HANDLE_SCHEME) and turn_id and number.isdecimal()
    return (turn_id, int(number)) if is_handle else None


def attachment(turn: Turn, number: int) -> MediaBlock | None:
    """Return the attachment that a handle names; None when the turn has no such one."""
    return dict(enumerate(media_of(turn.content), 1)).get(number)


def age_by_turns(
    messages: tuple[Message, ...], keep_turns: int, handles: Mapping[str, str]
) -> tuple[Message, ...]:
    """Age the media of all but the newest messages.

    At least `keep_turns` messages keep theirs and less than twice as many, so that the frontier
    moves once in `keep_turns` messages; 0 ages all media.

    Implements: MED-01.
    """
    frontier = _turns_frontier(len(messages), keep_turns)
    aged = {index for index, medium in enumerate(_media(messages)) if medium.message < frontier}
    return _with_markers(messages, aged, handles)


def age_by_budget(
    messages: tuple[Message, ...],
    budget: MediaBudget,
    handles: Mapping[str, str],
    *,
    max_media: int | None = None,
) -> tuple[Message, ...]:
    """Age the oldest media while there is more than the budget, in steps of half a limit.

    The newest attachment stays unless it alone is over a limit. Images with an edge over 2,000
    pixels keep a window of eight messages besides.

    Args:
        messages: In order.
        budget: Images and documents, and base64 characters of all media.
        handles: Handle of each source, as of `handles_of`.
        max_media: The provider's own limit of images and documents; lowers that of the budget.

    Implements: MED-02, MED-03, MED-04.
    """
    media = _media(messages)
    if not media:
        return messages
    limit = budget.max_items if max_media is None else min(budget.max_items, max_media)
    items = [_counts_as_item(medium.block) for medium in media]
    sizes = [_size(medium.block) for medium in media]
    count = max(_oldest(items, sum(items), limit), _oldest(sizes, sum(sizes), budget.max_bytes))
    frontier = _turns_frontier(len(messages), LARGE_IMAGE_KEEP_TURNS)
    aged = {
        index
        for index, medium in enumerate(media)
        if index < count or (medium.message < frontier and _is_large(medium.block))
    }
    return _with_markers(messages, aged, handles)


def age_by_request(
    messages: tuple[Message, ...], max_bytes: int, handles: Mapping[str, str]
) -> tuple[Message, ...]:
    """Age the oldest media while the whole request is over a limit, in steps of half of it.

    Text counts and stays. The newest attachment stays unless it alone is over the limit.

    Implements: K-CONTEXT-04.
    """
    media = _media(messages)
    if not media:
        return messages
    sizes = [_size(medium.block) for medium in media]
    total = sum(sizes) + sum(_text_bytes(b) for m in messages for b in m.content)
    count = _oldest(sizes, total, max_bytes)
    return _with_markers(messages, set(range(count)), handles)


def _media(messages: Sequence[Message]) -> list[Medium]:
    return [
        Medium(index, block)
        for index, message in enumerate(messages)
        for block in media_of(message.content)
    ]


def _turns_frontier(count: int, keep_turns: int) -> int:
    """Return the index of the first message that keeps its media."""
    if keep_turns == 0:
        return count
    return max(0, count - keep_turns) // keep_turns * keep_turns


def _oldest(weights: Sequence[int], total: int, limit: int) -> int:
    """Return how many of the oldest go so that the total gets under the limit, in half steps."""
    excess = total - limit
    if excess <= 0:
        return 0
    step = max(1, limit // 2)
    wanted = -(-excess // step) * step
    gone = accumulate(weights)
    count = next((i for i, weight in enumerate(gone, 1) if weight >= wanted), len(weights))
    # A whole step must not take what the model has just been shown.
    return min(count, len(weights) - 1) if weights[-1] <= limit else count


def _with_markers(
    messages: tuple[Message, ...], aged: Set[int], handles: Mapping[str, str]
) -> tuple[Message, ...]:
    if not aged:
        return messages
    number = -1

    def made(block: MediaBlock) -> MediaBlock | TextBlock:
        nonlocal number
        number += 1
        return _marker(block, handles) if number in aged else block

    return tuple(_replaced(message, made) for message in messages)


def _replaced(message: Message, made: Callable[[MediaBlock], MediaBlock | TextBlock]) -> Message:
    content: list[ContentBlock] = []
    for block in message.content:
        if _is_media(block):
            content.append(made(block))
        elif isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
            parts = tuple(made(part) if _is_media(part) else part for part in block.output)
            same = all(new is old for new, old in zip(parts, block.output, strict=True))
            content.append(block if same else block.model_copy(update={"output": parts}))
        else:
            content.append(block)
    same = all(new is old for new, old in zip(content, message.content, strict=True))
    return message if same else message.model_copy(update={"content": tuple(content)})


def _marker(block: MediaBlock, handles: Mapping[str, str]) -> TextBlock:
    name = f" {block.name!r}" if block.name else ""
    handle = handles.get(_source(block))
    again = f" To see it again, call read_file with path {handle}" if handle else ""
    return TextBlock(
        text=f"[{block.type}{name}, {block.media_type}, left out to save room.{again}]"
    )


def _is_media(block: ContentBlock | ResultContent) -> TypeGuard[MediaBlock]:
    if isinstance(block, DocumentBlock):
        return block.encoding == "base64"
    return isinstance(block, ImageBlock | AudioBlock | VideoBlock)


def _source(block: MediaBlock) -> str:
    ref = block.ref if isinstance(block, ImageBlock | DocumentBlock) else None
    return ref or block.data or ""


def _size(block: MediaBlock) -> int:
    return len(block.data or "")


def _counts_as_item(block: MediaBlock) -> int:
    return isinstance(block, ImageBlock | DocumentBlock)


def _text_bytes(block: ContentBlock) -> int:
    match block:
        case ToolResultBlock():
            output = block.output
            if isinstance(output, str):
                return len(output.encode("utf-8", "replace"))
            return sum(map(_text_bytes, output))
        case ImageBlock() | AudioBlock() | VideoBlock():
            return 0
        case DocumentBlock() if block.encoding == "base64":
            return 0
        case TextBlock():
            return len(block.text.encode("utf-8", "replace"))
        case _:
            return len(block.model_dump_json().encode("utf-8", "replace"))


def _is_large(block: MediaBlock) -> bool:
    if not isinstance(block, ImageBlock) or block.data is None:
        return False
    size = image_size(block.data)
    return size is not None and max(size) > MAX_EDGE_PX
