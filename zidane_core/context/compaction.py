"""Tail compaction: older tool output becomes a short stub when there is too much of it.

Only text of results goes; calls, results as such and attachments stay. The frontier, the first
message that is not touched, moves in steps: each step writes the prompt cache anew from there.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from zidane_core.content import TextBlock, ToolCallBlock, ToolOutput, ToolResultBlock
from zidane_core.context_options import CompactSkip
from zidane_core.session import Message

DEFAULT_THRESHOLD_BYTES = 131_072
DEFAULT_KEEP_TURNS = 4
BYTES_PER_TOKEN = 4
STEPS_PER_THRESHOLD = 4
"""Without a low water mark the frontier moves once per this part of the threshold (CMP-08)."""


def tail_threshold(
    threshold_bytes: int = DEFAULT_THRESHOLD_BYTES,
    *,
    window_fraction: float | None = None,
    window: int | None = None,
) -> int:
    """Return how many bytes of tool output may stay.

    Args:
        threshold_bytes: The least that it is.
        window_fraction: Share of the window, at four bytes a token; None leaves it out.
        window: Tokens; None when it is not known.

    Implements: CMP-04, CMP-05.
    """
    if window_fraction is None or window is None:
        return threshold_bytes
    return max(threshold_bytes, int(window_fraction * window * BYTES_PER_TOKEN))


def skips_tail(skip: CompactSkip | None, *, provider: str, window: int | None) -> bool:
    """Say whether tail compaction is left out for a provider and a window.

    Implements: CMP-07.
    """
    if skip is None or (skip.providers is not None and provider not in skip.providers):
        return False
    return skip.min_context_window is None or (
        window is not None and window >= skip.min_context_window
    )


def tail_frontier(
    messages: Sequence[Message],
    *,
    threshold_bytes: int = DEFAULT_THRESHOLD_BYTES,
    keep_turns: int = DEFAULT_KEEP_TURNS,
    low_water: float | None = None,
) -> int:
    """Return the index of the first message whose tool output stays; 0 when all of it does.

    A pure function of the messages that never goes back when more follow. Without `low_water`
    it keeps the largest recent part under the threshold, in steps of a quarter of that; with it,
    a step trims down to that share and the next one waits until the threshold is passed again
    and as much can go.

    Args:
        messages: After `context:transform`; only text of results is counted.
        threshold_bytes: Total above which output goes.
        keep_turns: Newest messages that are never touched.
        low_water: Between 0 and 1.

    Implements: CMP-02, CMP-03, CMP-06, CMP-08.
    """
    sizes = [sum(_output_bytes(message)) for message in messages]
    if low_water is not None:
        return _low_water_frontier(sizes, threshold_bytes, keep_turns, low_water)
    excess = sum(sizes) - threshold_bytes
    if excess <= 0:
        return 0
    step = max(1, threshold_bytes // STEPS_PER_THRESHOLD)
    wanted = -(-excess // step) * step
    limit = max(0, len(messages) - keep_turns)
    gone = list(accumulate(sizes, initial=0))
    while wanted > 0:
        frontier = next((i for i, total in enumerate(gone[: limit + 1]) if total >= wanted), None)
        if frontier is not None:
            return frontier
        # Not so far: the last whole step that leaves the newest messages alone.
        wanted = gone[limit] // step * step
    return 0


def _low_water_frontier(
    sizes: Sequence[int], threshold: int, keep_turns: int, low_water: float
) -> int:
    target = int(threshold * low_water)
    frontier, kept = 0, 0
    for index, size in enumerate(sizes):
        kept += size
        if kept <= threshold:
            continue
        reach, left = frontier, kept
        while left > target and reach <= index - keep_turns:
            left -= sizes[reach]
            reach += 1
        # Where the newest messages are too large, it waits until a whole step can go: else each
        # turn would take its own.
        if kept - left >= threshold - target:
            frontier, kept = reach, left
    return frontier


def compacted(messages: tuple[Message, ...], frontier: int) -> tuple[Message, ...]:
    """Return the messages with stubs for the tool output before the frontier.

    Output that is no longer than its stub stays, and so do attachments.

    Implements: CMP-01, CMP-02.
    """
    names = {
        block.id: block.name
        for message in messages[:frontier]
        for block in message.content
        if isinstance(block, ToolCallBlock)
    }
    head = tuple(_stubbed(message, names) for message in messages[:frontier])
    return (*head, *messages[frontier:]) if frontier else messages


def _stubbed(message: Message, names: Mapping[str, str]) -> Message:
    content = tuple(
        _stub(block, names.get(block.call_id, "a tool"))
        if isinstance(block, ToolResultBlock)
        else block
        for block in message.content
    )
    same = all(new is old for new, old in zip(content, message.content, strict=True))
    return message if same else message.model_copy(update={"content": content})


def _stub(result: ToolResultBlock, tool: str) -> ToolResultBlock:
    size = _text_bytes(result.output)
    text = f"[Output of {tool} left out to save room: {size} bytes. Call it again if you need it.]"
    if size <= len(text):
        return result
    if isinstance(result.output, str):
        return result.model_copy(update={"output": text})
    media = [part for part in result.output if not isinstance(part, TextBlock)]
    return result.model_copy(update={"output": (TextBlock(text=text), *media)})


def _output_bytes(message: Message) -> list[int]:
    return [_text_bytes(b.output) for b in message.content if isinstance(b, ToolResultBlock)]


def _text_bytes(output: ToolOutput) -> int:
    # Lone surrogates are mended later; they must not stop the count.
    if isinstance(output, str):
        return len(output.encode("utf-8", "replace"))
    texts = (part.text for part in output if isinstance(part, TextBlock))
    return sum(len(text.encode("utf-8", "replace")) for text in texts)
