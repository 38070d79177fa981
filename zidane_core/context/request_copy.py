"""The messages of one request, made fit for the provider that gets them; what is stored stays.

The one place where an unhealthy history is mended: a session that an older version, another
provider, a hook or a broken stream left behind must never lock itself out of every model.
"""

from collections.abc import Iterable, Sequence, Set
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
    ToolResultBlock,
)
from zidane_core.context.cleaning import cleaned
from zidane_core.context.pairing import Pairing, Repair
from zidane_core.context.repairs import as_marker
from zidane_core.session import Message

OPENING = "(The conversation begins with the assistant.)"
"""Stands before a history whose first message is not the user's, which services refuse."""
CONTINUE = "Please continue."
"""Stands behind an answer that no user's message follows, which most services refuse."""


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
    would refuse, server tool calls that were never answered, and media over the limit or of no
    use are mended or left out; every call keeps one result and an id of its own, and the last
    word is the user's unless the provider paused. Between two requests only the media limit, and
    a user's word behind a pause, change earlier messages.

    Implements: PROV-02, PROV-13, K-ANTHROPIC-07, K-ANTHROPIC-08, K-OPENAI-05, K-PAIRING-02.
    """
    fitting = [
        _with_content(message, [b for b in map(cleaned, message.content) if _is_sendable(b, fit)])
        for message in messages
    ]
    pairing, repairs = Pairing(), list[Repair]()
    copies: list[Message] = []
    for message in _alternating(_with_closed_server_calls(fitting)):
        copies.extend(pairing.add(message, repairs))
    copies.extend(pairing.close(repairs))
    if copies and copies[0].role == "assistant":
        copies.insert(0, Message(role="user", content=(TextBlock(text=OPENING),)))
    return _within_media_limit(copies, fit.max_media)


def _with_content(message: Message, content: Sequence[ContentBlock]) -> Message:
    """Return the message with other blocks; itself, unread, when they are the same."""
    same = len(content) == len(message.content) and all(
        new is old for new, old in zip(content, message.content, strict=True)
    )
    return message if same else message.model_copy(update={"content": tuple(content)})


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


def _with_closed_server_calls(messages: Sequence[Message]) -> list[Message]:
    """Leave out server tool calls without a result, and results without a call.

    Only the last message may end in open calls: it is paused, and the provider goes on with it.
    """
    blocks = [block for message in messages for block in message.content]
    uses = {_server_id(block) for block in blocks if isinstance(block, ServerToolUseBlock)}
    results = {_server_id(block) for block in blocks if isinstance(block, ServerToolResultBlock)}
    last = len(messages) - 1
    return [
        _without_open(message, uses, results, may_pause=index == last)
        for index, message in enumerate(messages)
    ]


def _without_open(
    message: Message, uses: Set[str | None], results: Set[str | None], *, may_pause: bool
) -> Message:
    is_paused = may_pause and _is_paused(message)
    content = [
        block
        for block in message.content
        if not isinstance(block, ServerToolUseBlock | ServerToolResultBlock)
        or _server_id(block) is None
        or (is_paused and isinstance(block, ServerToolUseBlock))
        or _server_id(block) in (results if isinstance(block, ServerToolUseBlock) else uses)
    ]
    return _with_content(message, content)


def _is_paused(message: Message) -> bool:
    """Say whether the provider goes on with this message by itself (K-ANTHROPIC-03)."""
    last = message.content[-1] if message.content else None
    return isinstance(last, ServerToolUseBlock) and _server_id(last) is not None


def _server_id(block: ServerToolUseBlock | ServerToolResultBlock) -> str | None:
    """Return the id that pairs a server tool call with its result; None where none has one."""
    is_use = isinstance(block, ServerToolUseBlock)
    if is_use and not str(block.raw.get("type", "")).endswith("tool_use"):
        return None
    found = block.raw.get("id" if is_use else "tool_use_id")
    return found if isinstance(found, str) else None


def _alternating(messages: Sequence[Message]) -> list[Message]:
    """Leave out empty messages; put a user's word behind an answer that none follows.

    The word stands there also when what follows was left out, so that the next request begins
    with this one. An answer that its provider goes on with by itself gets none.
    """
    heard = [message for message in messages if message.content or message.role == "assistant"]
    kept: list[Message] = []
    for index, message in enumerate(heard):
        if message.content:
            kept.append(message)
        follower = heard[index + 1].role if index + 1 < len(heard) else "assistant"
        is_unanswered = message.role == follower == "assistant"
        if is_unanswered and kept and kept[-1].role == "assistant" and not _is_paused(kept[-1]):
            kept.append(Message(role="user", content=(TextBlock(text=CONTINUE),)))
    return kept


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
        kept.append(_with_content(message, blocks))
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
