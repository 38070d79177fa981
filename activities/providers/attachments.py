"""Text that stands for an attachment which a provider's wire cannot carry as it is."""

import base64
import binascii
from typing import TypeGuard

from zidane_core.content import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    VideoBlock,
    tool_result_to_text,
)

MediaBlock = ImageBlock | AudioBlock | VideoBlock | DocumentBlock


def is_media(block: ContentBlock) -> TypeGuard[MediaBlock]:
    """Say whether the block is an attachment."""
    return isinstance(block, ImageBlock | AudioBlock | VideoBlock | DocumentBlock)


def is_pdf(block: DocumentBlock) -> bool:
    """Say whether the block holds a PDF, which some providers take as it is (PART-05)."""
    return (
        block.media_type == "application/pdf"
        and block.encoding == "base64"
        and block.data is not None
    )


def media_text(block: MediaBlock) -> str:
    """Return the text that goes on the wire for the block.

    A text document is inlined under a header that names it; anything else gives its marker,
    such as `[image: image/png, 1024 b64 bytes]`.

    Implements: PART-05.
    """
    inlined = document_text(block) if isinstance(block, DocumentBlock) else None
    if inlined is None:
        return tool_result_to_text((block,))
    return f"[attachment: {block.name or 'document'} ({block.media_type})]\n{inlined}"


def document_text(block: DocumentBlock) -> str | None:
    """Return the text of a document that is text; None for a binary one or an open ref."""
    if block.data is None:
        return None
    if block.encoding == "text":
        return block.data
    if not block.media_type.startswith("text/"):
        return None
    try:
        return base64.b64decode(block.data, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        return None
