"""Content blocks of a turn, and the parts of a prompt.

Blocks are what the store keeps; a prompt part is what a person or program sends in. Each has
a `type` that names it. Nothing here knows a provider's wire form.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    Discriminator,
    JsonValue,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from zidane_core.values import Json, UserInput, Value

DocumentEncoding = Literal["base64", "text"]


def clean_text(text: str) -> str:
    """Replace each half of a broken surrogate pair by U+FFFD, so that the text is valid UTF-8.

    Call it once, where text enters from outside.

    Implements: K-PAIRING-02.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_json(value: JsonValue) -> JsonValue:
    """Apply `clean_text` to every string in a JSON value, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean_json(item) for key, item in value.items()}
    return value


def clip_utf8(text: str, max_bytes: int) -> str:
    """Return the longest head of at most `max_bytes` UTF-8 bytes, cut between characters."""
    raw = text.encode("utf-8")
    return text if len(raw) <= max_bytes else raw[:max_bytes].decode("utf-8", "ignore")


class Block(Value):
    """Base of the content blocks: `type` is always written."""

    @model_serializer(mode="wrap")
    def _keep_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {"type": type(self).model_fields["type"].default, **fields}


class TextBlock(Block):
    """Text of a user or an assistant.

    Implements: SESS-06.
    """

    type: Literal["text"] = "text"
    text: str
    origin: str | None = None
    """Who wrote it when it is not the turn's role, such as a command."""
    system_note: str | None = None
    """The kind of note, when the text is a note on the prompt turn."""
    signature: str | None = None
    signature_producer: str | None = None
    citations: tuple[Json, ...] = ()
    """Sources as the provider `signature_producer` named them; only it gets them back."""


class ImageBlock(Block):
    """An image: base64 `data`, or a host's `ref` resolved when the request is built."""

    type: Literal["image"] = "image"
    media_type: str
    data: str | None = None
    ref: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _check_one_source(self.type, self.data, self.ref)
        return self


class AudioBlock(Block):
    """Sound, as base64 `data` without a data-URI prefix."""

    type: Literal["audio"] = "audio"
    media_type: str
    data: str
    name: str | None = None


class VideoBlock(Block):
    """A film, as base64 `data` without a data-URI prefix."""

    type: Literal["video"] = "video"
    media_type: str
    data: str
    name: str | None = None


class DocumentBlock(Block):
    """A document: `data` in the named encoding, or a host's `ref`."""

    type: Literal["document"] = "document"
    media_type: str
    data: str | None = None
    ref: str | None = None
    encoding: DocumentEncoding = "base64"
    name: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        _check_one_source(self.type, self.data, self.ref)
        return self


def _check_one_source(kind: str, data: str | None, ref: str | None) -> None:
    if (data is None) == (ref is None):
        raise ValueError(f"{kind} block wants either data or ref, got both or neither")


class ToolCallBlock(Block):
    """A tool call of an assistant turn. Names are canonical, never aliases.

    Implements: SESS-06, SESS-08, TOOL-05.
    """

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: Json
    invalid: str | None = None
    """Why the arguments could not be read (with a short preview); the body is then never run."""
    signature: str | None = None
    signature_producer: str | None = None


ResultContent = Annotated[
    TextBlock | ImageBlock | AudioBlock | VideoBlock | DocumentBlock, Discriminator("type")
]
"""What a tool may put in a list result (PART-06)."""

ToolOutput = str | tuple[ResultContent, ...]
"""A tool's output: text, or a list of blocks."""


class ToolResultBlock(Block):
    """The one answer to a tool call.

    Implements: SESS-07, TOOL-10.
    """

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    output: ToolOutput
    is_error: bool = False
    duration_ms: int | None = None
    """How long the body ran; None when it did not."""
    metadata: Json | None = None
    """Facts for hooks and hosts; never sent to the model."""
    calls: tuple[Json, ...] = ()
    """Records of the nested calls that the tool made itself."""


class ThinkingBlock(Block):
    """Reasoning text; `signature` is opaque and read only by its producer's wire builder."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = None
    signature_producer: str | None = None
    signature_model: str | None = None
    """The model, as it was asked for, to which the signature is bound; None fits any."""


class RedactedThinkingBlock(Block):
    """Reasoning that the provider sent encrypted; returned verbatim."""

    type: Literal["redacted_thinking"] = "redacted_thinking"
    data: str
    signature_producer: str | None = None
    signature_model: str | None = None
    """As in ThinkingBlock."""


class ProviderReasoningBlock(Block):
    """Reasoning in a provider's own shape (`details` or `reasoning_text`)."""

    type: Literal["provider_reasoning"] = "provider_reasoning"
    producer: str
    model: str | None = None
    """The model, as it was asked for, that takes the block back; None fits any."""
    details: tuple[Json, ...] = ()
    reasoning_text: str | None = None


class ServerToolUseBlock(Block):
    """A tool call that the provider runs itself; kept as the provider sent it."""

    type: Literal["server_tool_use"] = "server_tool_use"
    producer: str
    raw: Json


class ServerToolResultBlock(Block):
    """The provider's own answer to a server tool call; kept as the provider sent it."""

    type: Literal["server_tool_result"] = "server_tool_result"
    producer: str
    raw: Json


class CompactSummaryBlock(Block):
    """A model-made summary that stands for earlier turns on the wire."""

    type: Literal["compact-summary"] = "compact-summary"
    summary: str
    replaces_turn_ids: tuple[str, ...] = ()
    model: str | None = None
    compacted_at: int | None = None
    usage: Json | None = None


ContentBlock = Annotated[
    TextBlock
    | ImageBlock
    | AudioBlock
    | VideoBlock
    | DocumentBlock
    | ToolCallBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ProviderReasoningBlock
    | ServerToolUseBlock
    | ServerToolResultBlock
    | CompactSummaryBlock,
    Discriminator("type"),
]
"""Any block of a turn (SESS-05)."""

CONTENT: TypeAdapter[tuple[ContentBlock, ...]] = TypeAdapter(tuple[ContentBlock, ...])
"""Reads and writes a turn's content as JSON."""


class Part(UserInput):
    """Base of the prompt parts: `type` is always written."""

    @model_serializer(mode="wrap")
    def _keep_type(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {"type": type(self).model_fields["type"].default, **fields}


class TextPart(Part):
    """Text of a prompt (PART-01)."""

    type: Literal["text"] = "text"
    text: str

    def to_block(self) -> TextBlock:
        """Return the block that the prompt turn holds."""
        return TextBlock(text=clean_text(self.text))


class ImagePart(Part):
    """An image of a prompt, base64 (PART-02)."""

    type: Literal["image"] = "image"
    data: str
    media_type: str
    name: str | None = None

    def to_block(self) -> ImageBlock:
        """Return the block that the prompt turn holds."""
        return ImageBlock(data=self.data, media_type=self.media_type, name=self.name)


class AudioPart(Part):
    """Sound of a prompt, base64 without a data-URI prefix (PART-03)."""

    type: Literal["audio"] = "audio"
    data: str
    media_type: str
    name: str | None = None

    def to_block(self) -> AudioBlock:
        """Return the block that the prompt turn holds."""
        return AudioBlock(data=self.data, media_type=self.media_type, name=self.name)


class VideoPart(Part):
    """A film of a prompt, base64 without a data-URI prefix (PART-03)."""

    type: Literal["video"] = "video"
    data: str
    media_type: str
    name: str | None = None

    def to_block(self) -> VideoBlock:
        """Return the block that the prompt turn holds."""
        return VideoBlock(data=self.data, media_type=self.media_type, name=self.name)


class DocumentPart(Part):
    """A document of a prompt, base64 or raw text (PART-04)."""

    type: Literal["document"] = "document"
    data: str
    media_type: str
    encoding: DocumentEncoding = "base64"
    name: str | None = None

    def to_block(self) -> DocumentBlock:
        """Return the block that the prompt turn holds."""
        return DocumentBlock(
            data=self.data, media_type=self.media_type, encoding=self.encoding, name=self.name
        )


PromptPart = Annotated[
    TextPart | ImagePart | AudioPart | VideoPart | DocumentPart, Discriminator("type")
]
"""One block of a user prompt."""

Prompt = str | tuple[PromptPart, ...]
"""A prompt: a string is one text part."""


def prompt_blocks(prompt: Prompt) -> tuple[ContentBlock, ...]:
    """Return the blocks of a prompt in order; a string becomes one text block."""
    if isinstance(prompt, str):
        return (TextBlock(text=clean_text(prompt)),)
    return tuple(part.to_block() for part in prompt)


def tool_result_to_text(output: ToolOutput) -> str:
    """Return a result as text for people; lossy, so never use it to rebuild a result.

    Strings come back unchanged. A list gives its texts and, for each other block, a marker
    such as `[image: image/png, 1024 b64 bytes]` or `[image: image/png, ref abc]`, a line each.

    Implements: PART-09, PART-10.
    """
    if isinstance(output, str):
        return output
    return "\n".join(_block_text(block) for block in output)


def _block_text(block: ResultContent) -> str:
    if isinstance(block, TextBlock):
        return block.text
    ref = getattr(block, "ref", None)
    size = f"ref {ref}" if ref is not None else f"{len(block.data or '')} b64 bytes"
    return f"[{block.type}: {block.media_type}, {size}]"


def tool_output_byte_length(output: ToolOutput) -> int:
    """Return the wire size: UTF-8 bytes of text plus base64 characters of attachments.

    Not a token estimate: a 1024 x 1024 image is about 1,400 tokens at Anthropic (w * h / 750).

    Implements: PART-12, HOOK-06.
    """
    if isinstance(output, str):
        return len(output.encode("utf-8"))
    return sum(
        len(block.text.encode("utf-8")) if isinstance(block, TextBlock) else len(block.data or "")
        for block in output
    )


def tool_output_budget_byte_length(output: ToolOutput) -> int:
    """Return the size in UTF-8 bytes with attachments counted as their markers.

    Implements: PART-11.
    """
    return len(tool_result_to_text(output).encode("utf-8"))
