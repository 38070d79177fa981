"""One block as any service can read it: valid UTF-8, and no attachment that all of them refuse."""

import binascii
from typing import TypeVar

from pydantic import JsonValue

from zidane_core.content import (
    AudioBlock,
    Block,
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
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
from zidane_core.context.repairs import as_marker

_Block = TypeVar("_Block", bound=Block)

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What every service with eyes takes; a request that holds another type is refused whole."""


def cleaned(block: ContentBlock) -> ContentBlock:
    """Return the block with lone surrogates replaced, and its marker if no service takes it.

    Pictures of other types than `IMAGE_TYPES`, and attachments that are empty or not base64,
    become their markers, in results too. The same object when there is nothing to mend.

    Implements: K-PAIRING-02.
    """
    match block:
        case ToolResultBlock() if not isinstance(block.output, str):
            output = tuple(_cleaned_part(part) for part in block.output)
            same = all(new is old for new, old in zip(output, block.output, strict=True))
            made = block if same else block.model_copy(update={"output": output})
            return _with_text(made, "call_id")
        case ToolResultBlock():
            return _with_text(_with_text(block, "output"), "call_id")
        case ToolCallBlock():
            arguments: JsonValue = clean_json(block.input)
            same = arguments == block.input
            made = block if same else block.model_copy(update={"input": arguments})
            return _with_text(_with_text(made, "id"), "name")
        case ThinkingBlock():
            return _with_text(block, "text")
        case CompactSummaryBlock():
            return _with_text(block, "summary")
        case ProviderReasoningBlock():
            return _with_text(block, "reasoning_text")
        case ServerToolUseBlock() | ServerToolResultBlock():
            raw = clean_json(block.raw)
            return block if raw == block.raw else block.model_copy(update={"raw": raw})
        case TextBlock() | ImageBlock() | DocumentBlock() | AudioBlock():
            return _cleaned_part(block)
        case _:
            return block


def _cleaned_part(part: ResultContent) -> ResultContent:
    match part:
        case TextBlock():
            citations = tuple(clean_json(citation) for citation in part.citations)
            same = citations == part.citations
            made = part if same else part.model_copy(update={"citations": citations})
            return _with_text(made, "text")
        case ImageBlock() if part.media_type not in IMAGE_TYPES:
            return as_marker(part)
        case DocumentBlock() if part.encoding == "text":
            return _with_text(_with_text(part, "data"), "name")
        case ImageBlock() | DocumentBlock() | AudioBlock():
            if part.data is not None and not _is_base64(part.data):
                return as_marker(part)
            return _with_text(part, "name")
        case _:
            return part


def _with_text(block: _Block, field: str) -> _Block:
    text = getattr(block, field)
    mended = clean_text(text) if isinstance(text, str) else text
    return block if mended is text else block.model_copy(update={field: mended})


def _is_base64(encoded: str) -> bool:
    try:
        return bool(binascii.a2b_base64(encoded, strict_mode=True))
    except ValueError:
        return False
