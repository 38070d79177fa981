"""Anthropic's stream events to a ModelTurn; pure, fed with the events' JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from activities.providers.anthropic_wire import PRODUCER
from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.call_input import call_block, cut_off, with_unique_ids
from activities.providers.classify import Answer, classify_answer, read_error_body, truncated
from activities.providers.progress import Progress
from zidane_core.content import (
    ContentBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    clean_json,
    clean_text,
)
from zidane_core.usage import TurnFinishReason, TurnUsage

FINISH_REASONS: dict[str, TurnFinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
    "pause_turn": "pause",
}
"""Anthropic's stop reasons; any other is `other` (LOOP-05)."""


@dataclass
class _OpenBlock:
    raw: dict[str, Any]
    """The block as it began."""
    text: list[str] = field(default_factory=list[str])
    signature: str = ""
    arguments: list[str] = field(default_factory=list[str])

    @property
    def raw_arguments(self) -> str:
        """The arguments as they came; some servers send them whole in the block's start."""
        if self.arguments or not self.raw.get("input"):
            return "".join(self.arguments)
        return json.dumps(self.raw["input"])


class MessageReader:
    """Puts one message together; every piece also goes to the sink.

    Feed every event, then call `finish`.
    """

    def __init__(self, request: ModelRequest, progress: Progress, provider: str = PRODUCER) -> None:
        self._request = request
        self._progress = progress
        self._provider = provider
        self._blocks: dict[int, _OpenBlock] = {}
        self._usage: dict[str, Any] = {}
        self._model: str | None = None
        self._stop_reason: str | None = None
        self.is_complete = False
        """`message_stop` came."""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event's JSON; kinds that we do not know are skipped.

        Raises:
            ProviderError: The event is an error.
        """
        match event.get("type"):
            case "message_start":
                message = _mapping(event.get("message"))
                self._model = str(message.get("model") or "") or None
                self._take_usage(message)
            case "content_block_start":
                self._start(_index(event), _mapping(event.get("content_block")))
            case "content_block_delta":
                self._extend(_index(event), _mapping(event.get("delta")))
            case "message_delta":
                self._stop_reason = _mapping(event.get("delta")).get("stop_reason")
                self._take_usage(event)
            case "message_stop":
                self.is_complete = True
            case "error":
                codes, said = read_error_body(event)
                failure = classify_answer(self._provider, Answer(codes=codes, message=said))
                raise self._progress.failed(failure)
            case _:
                pass

    def finish(self) -> ModelTurn:
        """Return the whole turn.

        Raises:
            ProviderError: The stream ended without `message_stop` (K-ANTHROPIC-02).
        """
        if not self.is_complete:
            raise self._progress.failed(truncated(self._provider))
        reason = FINISH_REASONS.get(self._stop_reason or "", "other")
        blocks = self._finished_blocks(is_cut=reason == "length")
        has_calls = any(isinstance(block, ToolCallBlock) for block in blocks)
        if reason == "stop" and has_calls:
            reason = "tool-calls"
        elif reason == "tool-calls" and not has_calls:
            reason = "stop"
        return ModelTurn(
            blocks=with_unique_ids(blocks, self._request),
            finish_reason=reason,
            usage=self._turn_usage(),
        )

    def _start(self, index: int, raw: Mapping[str, Any]) -> None:
        block = _OpenBlock(dict(raw))
        self._blocks[index] = block
        match raw.get("type"):
            case "text":
                self._add_text(block, str(raw.get("text") or ""))
            case "thinking":
                block.signature = str(raw.get("signature") or "")
                self._add_thinking(block, str(raw.get("thinking") or ""))
            case "tool_use" | "server_tool_use":
                self._progress.tool_call(str(raw.get("name")))
            case _:
                pass

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, _OpenBlock({"type": "text"}))
        match delta.get("type"):
            case "text_delta":
                self._add_text(block, str(delta.get("text") or ""))
            case "thinking_delta":
                self._add_thinking(block, str(delta.get("thinking") or ""))
            case "signature_delta":
                block.signature += str(delta.get("signature") or "")
            case "input_json_delta":
                piece = str(delta.get("partial_json") or "")
                block.arguments.append(piece)
                self._progress.tool_arguments(piece)
            case _:
                pass

    def _add_text(self, block: _OpenBlock, piece: str) -> None:
        block.text.append(piece)
        self._progress.text(piece)

    def _add_thinking(self, block: _OpenBlock, piece: str) -> None:
        block.text.append(piece)
        self._progress.thinking(piece)

    def _take_usage(self, holder: Mapping[str, Any]) -> None:
        """Overwrite: the counts of later events are sums, not increments."""
        reported = _mapping(holder.get("usage"))
        self._usage.update({key: value for key, value in reported.items() if value is not None})

    def _finished_blocks(self, *, is_cut: bool) -> list[ContentBlock]:
        last = max(self._blocks, default=None)
        blocks: list[ContentBlock] = []
        for index in sorted(self._blocks):
            made = self._finished(self._blocks[index])
            if isinstance(made, ToolCallBlock) and is_cut and index == last:
                made = cut_off(made, self._blocks[index].raw_arguments)
            if made is not None:
                blocks.append(made)
        return blocks

    def _finished(self, block: _OpenBlock) -> ContentBlock | None:
        raw, text = block.raw, clean_text("".join(block.text))
        match raw.get("type"):
            case "text":
                return TextBlock(text=text) if text else None
            case "thinking":
                return self._thinking_block(text, block.signature)
            case "redacted_thinking":
                data = str(raw.get("data") or "")
                return RedactedThinkingBlock(data=data, signature_producer=PRODUCER)
            case "tool_use":
                return call_block(
                    str(raw.get("id") or ""),
                    str(raw.get("name")),
                    block.raw_arguments,
                    self._request.tools,
                )
            case "server_tool_use":
                return ServerToolUseBlock(producer=PRODUCER, raw=_cleaned(_server_call(block)))
            case str(kind) if kind.endswith("_tool_result"):
                return ServerToolResultBlock(producer=PRODUCER, raw=_cleaned(raw))
            case _:
                return None

    def _thinking_block(self, text: str, signature: str) -> ThinkingBlock | None:
        # Empty text under a valid signature is normal and must go back (K-ANTHROPIC-09).
        if not text and not signature:
            return None
        producer = PRODUCER if signature else None
        return ThinkingBlock(text=text, signature=signature or None, signature_producer=producer)

    def _turn_usage(self) -> TurnUsage:
        details = _mapping(self._usage.get("output_tokens_details"))
        return TurnUsage(
            input=self._usage.get("input_tokens") or 0,
            output=self._usage.get("output_tokens") or 0,
            cache_creation=self._usage.get("cache_creation_input_tokens"),
            cache_read=self._usage.get("cache_read_input_tokens"),
            thinking=details.get("thinking_tokens"),
            model_id=self._model or self._request.model,
            provider=self._provider,
        )


def _server_call(block: _OpenBlock) -> dict[str, Any]:
    """Return a server tool call as the service wants it back: with its whole input."""
    call = call_block("", "", "".join(block.arguments), ())
    return {**block.raw, "input": call.input} if block.arguments else block.raw


def _cleaned(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: clean_json(value) for key, value in raw.items()}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
