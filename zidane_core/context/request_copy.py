"""The messages of one request, made fit for the provider that gets them; what is stored stays.

The one place where an unhealthy history is mended: a session that an older version, another
provider, a hook or a broken stream left behind must never lock itself out of every model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zidane_core.content import (
    CompactSummaryBlock,
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
    ToolResultBlock,
    clean_json,
    clean_text,
)
from zidane_core.context.pairing import Pairing, Repair
from zidane_core.context.repairs import as_marker
from zidane_core.session import Message

OPENING = "(The conversation begins with the assistant.)"
"""Stands before a history whose first message is not the user's, which services refuse."""


@dataclass(frozen=True)
class Fit:
    """What the provider of a request can take back."""

    provider: str
    """Whose reasoning and server tool blocks are sent; those of others are left out."""
    model: str
    """Reasoning that is bound to another model is left out (K-ANTHROPIC-08)."""
    unsigned_thinking: bool = False
    """Reasoning without a signature is sent too."""
    max_media: int | None = None
    """Images and documents of one request; the oldest beyond it become their markers."""


def request_copy(messages: Iterable[Message], fit: Fit) -> tuple[Message, ...]:
    """Return the messages that a request may hold; a pure function of its arguments.

    Text without a visible character, broken surrogates, reasoning that the provider or model
    would refuse, and media over the limit are mended or left out; every call keeps one result
    and an id of its own. Between two requests only the media limit changes earlier messages.

    Implements: PROV-02, PROV-13, K-ANTHROPIC-07, K-ANTHROPIC-08, K-OPENAI-05, K-PAIRING-02.
    """
    pairing, repairs = Pairing(), list[Repair]()
    copies: list[Message] = []
    for message in messages:
        kept = tuple(block for block in map(_cleaned, message.content) if _is_sendable(block, fit))
        if kept:
            copies.extend(pairing.add(Message(role=message.role, content=kept), repairs))
    copies.extend(pairing.close(repairs))
    if copies and copies[0].role == "assistant":
        copies.insert(0, Message(role="user", content=(TextBlock(text=OPENING),)))
    return _within_media_limit(copies, fit.max_media)


def _is_sendable(block: ContentBlock, fit: Fit) -> bool:
    match block:
        case TextBlock():
            return bool(block.text.strip())
        case CompactSummaryBlock():
            return bool(block.summary.strip())
        case ThinkingBlock() if not block.signature:
            # Cut off before its signature came, or from a model that signs nothing.
            return fit.unsigned_thinking and bool(block.text.strip())
        case ThinkingBlock() | RedactedThinkingBlock():
            return block.signature_producer == fit.provider and block.signature_model in (
                None,
                fit.model,
            )
        case ProviderReasoningBlock():
            return block.producer == fit.provider and block.model in (None, fit.model)
        case ServerToolUseBlock() | ServerToolResultBlock():
            return block.producer == fit.provider
        case _:
            return True


def _cleaned(block: ContentBlock) -> ContentBlock:
    """Replace lone surrogates; the same object when there are none."""
    match block:
        case TextBlock() | ThinkingBlock():
            text = clean_text(block.text)
            return block if text is block.text else block.model_copy(update={"text": text})
        case ToolCallBlock():
            arguments = clean_json(block.input)
            changed = arguments != block.input
            return block.model_copy(update={"input": arguments}) if changed else block
        case ToolResultBlock() if isinstance(block.output, str):
            text = clean_text(block.output)
            return block if text is block.output else block.model_copy(update={"output": text})
        case _:
            return block


def _within_media_limit(messages: Sequence[Message], limit: int | None) -> tuple[Message, ...]:
    if limit is None:
        return tuple(messages)
    room = limit
    kept: list[Message] = []
    for message in reversed(messages):
        blocks: list[ContentBlock] = []
        for block in reversed(message.content):
            made, room = _limited(block, room)
            blocks.append(made)
        blocks.reverse()
        unchanged = all(new is old for new, old in zip(blocks, message.content, strict=True))
        kept.append(message if unchanged else Message(role=message.role, content=tuple(blocks)))
    return tuple(reversed(kept))


def _limited(block: ContentBlock, room: int) -> tuple[ContentBlock, int]:
    """Return the block, as its marker when there is no room for it, and the room that is left."""
    if isinstance(block, ImageBlock | DocumentBlock):
        return (block, room - 1) if room > 0 else (as_marker(block), 0)
    if not isinstance(block, ToolResultBlock) or isinstance(block.output, str):
        return block, room
    parts: list[ResultContent] = []
    for part in reversed(block.output):
        if isinstance(part, ImageBlock | DocumentBlock):
            parts.append(part if room > 0 else as_marker(part))
            room = max(0, room - 1)
        else:
            parts.append(part)
    parts.reverse()
    if all(new is old for new, old in zip(parts, block.output, strict=True)):
        return block, room
    return block.model_copy(update={"output": tuple(parts)}), room
