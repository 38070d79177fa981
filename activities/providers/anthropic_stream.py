"""Anthropic's stream events to a ModelTurn; pure, fed with the events' JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from activities.providers.anthropic_blocks import OpenBlock, cleaned, opened
from activities.providers.anthropic_wire import PRODUCER
from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.call_input import cut_off, with_unique_ids
from activities.providers.classify import Answer, classify_answer, read_error_body, truncated
from activities.providers.progress import Progress
from zidane_core.content import ContentBlock, ToolCallBlock
from zidane_core.usage import TurnFinishReason, TurnUsage
from zidane_core.values import Json

FINISH_REASONS: dict[str, TurnFinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
    "pause_turn": "pause",
    "compaction": "pause",
}
"""Anthropic's stop reasons; any other is `other` (LOOP-05)."""

_COUNTS: tuple[str, ...] = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


class MessageReader:
    """Puts one message together; every piece also goes to the sink.

    Feed every event, then call `finish`.
    """

    def __init__(self, request: ModelRequest, progress: Progress, provider: str = PRODUCER) -> None:
        self._request = request
        self._progress = progress
        self._provider = provider
        self._blocks: dict[int, OpenBlock] = {}
        self._reported: set[str] = set()
        self._usage: dict[str, Any] = {}
        self._transformations: tuple[Json, ...] = ()
        self._message_id: str | None = None
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
                self._message_id = str(message.get("id") or "") or None
                self._take_facts(message)
            case "content_block_start":
                self._start(_index(event), _mapping(event.get("content_block")))
            case "content_block_delta":
                self._extend(_index(event), _mapping(event.get("delta")))
            case "content_block_stop":
                self._close(_index(event))
            case "message_delta":
                self._stop_reason = _mapping(event.get("delta")).get("stop_reason")
                self._take_facts(event)
            case "message_stop":
                self.is_complete = True
            case "error":
                codes, said = read_error_body(event)
                failure = classify_answer(self._provider, Answer(codes=codes, message=said))
                raise self._progress.failed(failure)
            case _:
                pass

    def finish(self, *, request_id: str | None = None) -> ModelTurn:
        """Return the whole turn.

        Args:
            request_id: The service's id of the call; None takes the message's.

        Raises:
            ProviderError: The stream ended without `message_stop` (K-ANTHROPIC-02).
        """
        if not self.is_complete:
            raise self._progress.failed(truncated(self._provider))
        reason = FINISH_REASONS.get(self._stop_reason or "", "other")
        blocks = self._finished_blocks(reason)
        has_calls = any(isinstance(block, ToolCallBlock) for block in blocks)
        if reason == "stop" and has_calls:
            reason = "tool-calls"
        elif reason == "tool-calls" and not has_calls:
            reason = "stop"
        return ModelTurn(
            blocks=with_unique_ids(blocks, self._request),
            finish_reason=reason,
            usage=self._turn_usage(),
            input_transformations=self._transformations,
            request_id=request_id or self._message_id,
        )

    def _start(self, index: int, raw: Mapping[str, Any]) -> None:
        block = self._blocks[index] = opened(raw)
        if block.kind == "text":
            self._progress.text("".join(block.text))
        elif block.kind == "thinking":
            self._progress.thinking("".join(block.text))
        elif block.kind == "tool_use" or block.is_server_call:
            self._progress.tool_call(block.name)
        elif block.is_server_result:
            self._server_tool_ran(str(raw.get("tool_use_id")), block.kind)

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, OpenBlock({"type": "text"}))
        block.extend(delta)
        match delta.get("type"):
            case "text_delta":
                self._progress.text(block.text[-1])
            case "thinking_delta":
                self._progress.thinking(block.text[-1])
            case "input_json_delta":
                self._progress.tool_arguments(block.arguments[-1])
            case _:
                pass

    def _close(self, index: int) -> None:
        """A call of the service's own tool is whole, so it runs whatever becomes of the stream."""
        block = self._blocks.get(index)
        if block is not None and block.is_server_call:
            self._server_tool_ran(str(block.raw.get("id")), block.name)

    def _server_tool_ran(self, call_id: str, name: str) -> None:
        if call_id not in self._reported:
            self._reported.add(call_id)
            self._progress.server_tool(name)

    def _take_facts(self, holder: Mapping[str, Any]) -> None:
        """Overwrite what came before: later counts are sums, later lists replace the first."""
        reported = _mapping(holder.get("usage"))
        self._usage.update({key: value for key, value in reported.items() if value is not None})
        for place in (holder, reported):
            found = place.get("input_transformations")
            if isinstance(found, list):
                listed = cast("list[object]", found)
                self._transformations = tuple(
                    cleaned(_mapping(each)) for each in listed if isinstance(each, Mapping)
                )

    def _finished_blocks(self, reason: TurnFinishReason) -> Sequence[ContentBlock]:
        last = max(self._blocks, default=None)
        blocks: list[ContentBlock] = []
        for index in sorted(self._blocks):
            block = self._blocks[index]
            made = block.finished(self._request.tools, self._request.model)
            if isinstance(made, ToolCallBlock):
                if reason == "content-filter":
                    # What the service stopped the model from doing is not done in its name.
                    continue
                if reason == "length" and index == last:
                    made = cut_off(made, block.raw_arguments)
            if made is not None:
                blocks.append(made)
        return blocks

    def _turn_usage(self) -> TurnUsage:
        details = _mapping(self._usage.get("output_tokens_details"))
        extra = self._compaction_counts()
        counts = {
            key: self._usage[key] + extra[key] if key in self._usage else extra[key] or None
            for key in _COUNTS
        }
        dropped = sum(each.get("type") == "thinking_dropped" for each in self._transformations)
        return TurnUsage(
            input=counts["input_tokens"] or 0,
            output=counts["output_tokens"] or 0,
            cache_creation=counts["cache_creation_input_tokens"],
            cache_read=counts["cache_read_input_tokens"],
            thinking=details.get("thinking_tokens"),
            thinking_dropped=dropped or None,
            model_id=self._model or self._request.model,
            provider=self._provider,
        )

    def _compaction_counts(self) -> dict[str, int]:
        """Return what the service's own compactions used, which its totals leave out."""
        counts = dict.fromkeys(_COUNTS, 0)
        iterations = self._usage.get("iterations")
        for each in cast("list[object]", iterations) if isinstance(iterations, list) else ():
            iteration = _mapping(each)
            if iteration.get("type") == "compaction":
                for key in _COUNTS:
                    counts[key] += iteration.get(key) or 0
        return counts


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
