"""A rough count of tokens, for servers that report none: a token per four bytes of UTF-8.

Bytes, not characters: text that is not Latin takes more tokens for a character.
"""

import json
from collections.abc import Iterable

from activities.providers.base import ModelRequest
from zidane_core.content import (
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.session import Message

CHARS_PER_TOKEN = 4
IMAGE_TOKENS = 765
"""A picture of 1024 x 1024 at OpenAI: 85 and 170 for each of its four tiles."""


def estimate_text(text: str) -> int:
    """Return the estimated tokens of a text, 0 for an empty one."""
    return len(text.encode("utf-8", "replace")) // CHARS_PER_TOKEN


def estimate_request(request: ModelRequest) -> int:
    """Return the estimated input tokens of a call with its tools, at least 1."""
    tools = "".join(
        f"{tool.name}{tool.description}{json.dumps(tool.input_schema)}" for tool in request.tools
    )
    return estimate_tokens(request.system, request.messages) + estimate_text(tools)


def estimate_tokens(system: str, messages: Iterable[Message]) -> int:
    """Return the estimated input tokens, at least 1.

    A picture counts as `IMAGE_TOKENS`, other attachments as their markers or their text.
    """
    blocks = [block for message in messages for block in message.content]
    size = len(system.encode("utf-8", "replace")) + sum(map(_block_bytes, blocks))
    return max(1, size // CHARS_PER_TOKEN + IMAGE_TOKENS * sum(map(_pictures, blocks)))


def block_chars(block: ContentBlock) -> int:
    """Return the characters of a block's text, arguments or result; 0 for other blocks."""
    match block:
        case TextBlock() | CompactSummaryBlock() | ToolCallBlock() | ToolResultBlock():
            return len(_block_text(block))
        case _:
            return 0


def _block_bytes(block: ContentBlock) -> int:
    return len(_block_text(block).encode("utf-8", "replace"))


def _block_text(block: ContentBlock) -> str:
    match block:
        case TextBlock() | ThinkingBlock():
            return block.text
        case CompactSummaryBlock():
            return block.summary
        case ToolCallBlock():
            return block.name + json.dumps(block.input)
        case ToolResultBlock():
            return tool_result_to_text(block.output)
        case ProviderReasoningBlock():
            return block.reasoning_text or ""
        case DocumentBlock() if block.encoding == "text":
            return block.data or ""
        case _:
            return ""


def _pictures(block: ContentBlock) -> int:
    if isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
        return sum(isinstance(part, ImageBlock) for part in block.output)
    return isinstance(block, ImageBlock)
