"""The chunks of an OpenAI chat completion to a ModelTurn; pure, fed with the chunks' JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.call_input import call_block, cut_off, with_unique_ids
from activities.providers.classify import truncated
from activities.providers.progress import Progress
from activities.providers.token_estimate import estimate_tokens
from zidane_core.content import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    clean_text,
)
from zidane_core.usage import TurnFinishReason, TurnUsage

FINISH_REASONS: dict[str, TurnFinishReason] = {
    "stop": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
    "error": "error",
}
"""OpenAI's finish reasons; any other is `other` (LOOP-05)."""


@dataclass
class _OpenCall:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    @property
    def raw_arguments(self) -> str:
        return "".join(self.arguments)


class CompletionReader:
    """Puts one completion together; every piece also goes to the sink.

    Feed every chunk, then call `finish`.
    """

    def __init__(self, request: ModelRequest, progress: Progress, provider: str) -> None:
        self._request = request
        self._progress = progress
        self._provider = provider
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_OpenCall] = []
        self._call_at_index: dict[int, _OpenCall] = {}
        self._finish_reason: str | None = None
        self._usage: Mapping[str, Any] = {}
        self._model: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """The server said why the turn ended, so that nothing but usage can be missing."""
        return self._finish_reason is not None

    def feed(self, chunk: Mapping[str, Any]) -> None:
        """Take one chunk's JSON; fields that we do not know are skipped."""
        if chunk.get("model"):
            self._model = str(chunk["model"])
        usage = _mapping(chunk.get("usage"))
        if usage:
            self._usage = usage
        for choice in _mappings(chunk.get("choices")):
            if choice.get("finish_reason"):
                self._finish_reason = str(choice["finish_reason"])
            self._take_delta(_mapping(choice.get("delta")))

    def finish(self, *, saw_done: bool) -> ModelTurn:
        """Return the whole turn.

        The reason follows what came: calls are `tool-calls` whatever the server said, and
        without a call the turn is a `stop` (K-OPENAI-03).

        Args:
            saw_done: The stream's `[DONE]` marker came.

        Raises:
            ProviderError: Neither a finish reason nor the marker came: the stream is cut.
        """
        if self._finish_reason is None and not saw_done:
            raise self._progress.failed(truncated(self._provider))
        reason = FINISH_REASONS.get(self._finish_reason or "stop", "other")
        calls = self._finished_calls(is_cut=reason == "length")
        if calls and reason in ("stop", "other"):
            reason = "tool-calls"
        elif not calls and reason == "tool-calls":
            reason = "stop"
        blocks = (*self._finished_text(), *calls)
        return ModelTurn(
            blocks=with_unique_ids(blocks, self._request),
            finish_reason=reason,
            usage=self._turn_usage(),
        )

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        # Servers spell it either way, some send both with the same text.
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thinking, str):
            self._thinking.append(thinking)
            self._progress.thinking(thinking)
        for key in ("content", "refusal"):
            piece = delta.get(key)
            if isinstance(piece, str):
                self._text.append(piece)
                self._progress.text(piece)
        for fragment in _mappings(delta.get("tool_calls")):
            self._take_fragment(fragment)

    def _take_fragment(self, fragment: Mapping[str, Any]) -> None:
        function = _mapping(fragment.get("function"))
        call = self._call_of(fragment, str(function.get("name") or ""))
        arguments = function.get("arguments")
        if arguments is None:
            return
        # Some servers send the object itself (K-OPENAI-02).
        piece = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call.arguments.append(piece)
        self._progress.tool_arguments(piece)

    def _call_of(self, fragment: Mapping[str, Any], name: str) -> _OpenCall:
        """Return the call that a fragment goes on with, or a new one (K-OPENAI-01).

        The index says which; without one it is the last call. A new id begins a new call
        either way: some servers put every call at index 0.
        """
        call_id = str(fragment.get("id") or "")
        index = fragment.get("index")
        if isinstance(index, int):
            current = self._call_at_index.get(index)
        else:
            current = self._calls[-1] if self._calls else None
        if current is None or _begins_another(current, call_id, name, index):
            current = _OpenCall(call_id, name)
            self._calls.append(current)
            self._progress.tool_call(name)
        elif not current.name:
            current.name = name
        current.id = current.id or call_id
        if isinstance(index, int):
            self._call_at_index[index] = current
        return current

    def _finished_text(self) -> list[ContentBlock]:
        blocks: list[ContentBlock] = []
        if any(self._thinking):
            blocks.append(ThinkingBlock(text=clean_text("".join(self._thinking))))
        if any(self._text):
            blocks.append(TextBlock(text=clean_text("".join(self._text))))
        return blocks

    def _finished_calls(self, *, is_cut: bool) -> list[ToolCallBlock]:
        calls: list[ToolCallBlock] = []
        seen: set[tuple[str, str, str]] = set()
        for position, call in enumerate(self._calls):
            sent = (call.id, call.name, call.raw_arguments)
            # The same call under another index; equal calls with ids of their own are two calls.
            if call.id and sent in seen:
                continue
            seen.add(sent)
            block = call_block(call.id, call.name, call.raw_arguments, self._request.tools)
            if is_cut and position == len(self._calls) - 1:
                block = cut_off(block, call.raw_arguments)
            calls.append(block)
        return calls

    def _turn_usage(self) -> TurnUsage:
        model_id = self._model or self._request.model
        if not self._usage:
            # Never zero: budgets must work with servers that do not count (K-OPENAI-07).
            written = [*self._text, *self._thinking, *(c.raw_arguments for c in self._calls)]
            return TurnUsage(
                input=estimate_tokens(self._request.system, self._request.messages),
                output=max(1, sum(len(piece) for piece in written) // 4),
                model_id=model_id,
                provider=self._provider,
            )
        inputs = _mapping(self._usage.get("prompt_tokens_details"))
        outputs = _mapping(self._usage.get("completion_tokens_details"))
        read, written = inputs.get("cached_tokens"), inputs.get("cache_write_tokens")
        total = self._usage.get("prompt_tokens") or 0
        cost = self._usage.get("cost")
        return TurnUsage(
            input=max(0, total - (read or 0) - (written or 0)),
            output=self._usage.get("completion_tokens") or 0,
            cache_read=read,
            cache_creation=written,
            thinking=outputs.get("reasoning_tokens"),
            cost=cost if isinstance(cost, int | float) else None,
            model_id=model_id,
            provider=self._provider,
        )


def _begins_another(current: _OpenCall, call_id: str, name: str, index: Any) -> bool:
    """Say whether a fragment that could go on with `current` begins another call."""
    if call_id:
        return current.id not in ("", call_id)
    # With neither index nor id, only a name after arguments tells.
    return not isinstance(index, int) and name != "" and bool(current.arguments)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        return ()
    return [_mapping(item) for item in cast("list[Any]", value)]
