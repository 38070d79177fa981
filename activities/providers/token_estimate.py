"""A rough count of tokens, for servers that report none: a token per four characters."""

import json
from collections.abc import Iterable

from zidane_core.content import (
    CompactSummaryBlock,
    ContentBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.session import Message

CHARS_PER_TOKEN = 4


def estimate_tokens(system: str, messages: Iterable[Message]) -> int:
    """Return the estimated input tokens, at least 1; attachments count as their markers."""
    chars = len(system) + sum(
        block_chars(block) for message in messages for block in message.content
    )
    return max(1, chars // CHARS_PER_TOKEN)


def block_chars(block: ContentBlock) -> int:
    """Return the characters of a block's text, arguments or result; 0 for other blocks."""
    match block:
        case TextBlock():
            return len(block.text)
        case CompactSummaryBlock():
            return len(block.summary)
        case ToolCallBlock():
            return len(block.name) + len(json.dumps(block.input))
        case ToolResultBlock():
            return len(tool_result_to_text(block.output))
        case _:
            return 0
