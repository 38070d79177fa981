"""The chunks of an OpenAI chat completion to a ModelTurn; pure, fed with the chunks' JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.call_input import with_unique_ids
from activities.providers.classify import Answer, classify_answer, truncated
from activities.providers.openai_calls import CallReader
from activities.providers.openai_reasoning import ReasoningDetails
from activities.providers.openai_usage import UsageReader
from activities.providers.progress import Progress
from zidane_core.content import (
    ContentBlock,
    ProviderReasoningBlock,
    TextBlock,
    ThinkingBlock,
    clean_text,
)
from zidane_core.usage import TurnFinishReason

FINISH_REASONS: dict[str, TurnFinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "length": "length",
    "content_filter": "content-filter",
}
"""OpenAI's finish reasons; any other is `other`, and `error` is a failure (LOOP-05)."""


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
        self._details = ReasoningDetails()
        self._calls = CallReader(progress)
        self._usage = UsageReader()
        self._is_refusal = False
        self._finish_reason: str | None = None
        self._model: str | None = None
        self._id: str | None = None

    @property
    def has_finish_reason(self) -> bool:
        """The server said why the turn ended, so that nothing but usage can be missing."""
        return self._finish_reason not in (None, "error")

    def feed(self, chunk: Mapping[str, Any]) -> None:
        """Take one chunk's JSON; fields that we do not know are skipped."""
        self._model = _text_of(chunk.get("model")) or self._model
        self._id = _text_of(chunk.get("id")) or self._id
        self._usage.feed(chunk)
        for choice in _mappings(chunk.get("choices")):
            # One answer was asked for; a server that gives more has its first one read.
            if choice.get("index") not in (None, 0):
                continue
            self._finish_reason = _text_of(choice.get("finish_reason")) or self._finish_reason
            self._take_delta(_mapping(choice.get("delta")) or _mapping(choice.get("message")))

    def finish(self, *, saw_done: bool) -> ModelTurn:
        """Return the whole turn.

        The reason follows what came: calls are `tool-calls` whatever the server said, and
        without a call the turn is a `stop` (K-OPENAI-03), or a `content-filter` when the text is
        a refusal. Reasoning comes first, as text for people and, where the service gives it in a
        form of its own, as the block that goes back to it.

        Args:
            saw_done: The stream's `[DONE]` marker came.

        Raises:
            ProviderError: Neither a finish reason nor the marker came: the stream is cut. Or the
                reason is that the server failed.

        Implements: LOOP-05, PROV-14, SESS-05.
        """
        if self._finish_reason == "error":
            failed = Answer(codes=("server_error",), message="the stream ended with an error")
            raise self._progress.failed(classify_answer(self._provider, failed))
        if self._finish_reason is None and not saw_done:
            raise self._progress.failed(truncated(self._provider))
        reason = FINISH_REASONS.get(self._finish_reason or "stop", "other")
        calls = self._calls.finish(self._request.tools, is_cut=reason == "length")
        if calls and reason in ("stop", "other"):
            reason = "tool-calls"
        elif not calls and reason in ("tool-calls", "stop"):
            reason = "content-filter" if self._is_refusal else "stop"
        return ModelTurn(
            blocks=with_unique_ids((*self._written_blocks(), *calls), self._request),
            finish_reason=reason,
            usage=self._usage.finish(
                self._request,
                provider=self._provider,
                model_id=self._model or self._request.model,
                written=["".join(self._text), "".join(self._thinking), *self._calls.written],
            ),
            request_id=self._id,
        )

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        # Servers spell it either way, some send both with the same text.
        thinking = _text_of(delta.get("reasoning_content")) or _text_of(delta.get("reasoning"))
        said = self._details.feed(delta.get("reasoning_details"))
        self._think(thinking or said)
        content = delta.get("content")
        if isinstance(content, str):
            self._say(content)
        for part in _mappings(content):
            self._take_part(part)
        refusal = _text_of(delta.get("refusal"))
        self._is_refusal = self._is_refusal or bool(refusal)
        self._say(refusal)
        self._calls.feed(delta)

    def _take_part(self, part: Mapping[str, Any]) -> None:
        """Take a part of a content that comes as a list, as Mistral's models send it."""
        if part.get("type") in ("thinking", "reasoning"):
            inner = part.get("thinking") or part.get("text")
            pieces = [inner] if isinstance(inner, str) else _texts(_mappings(inner))
            self._think("".join(pieces))
        else:
            self._say("".join(_texts((part,))))

    def _say(self, piece: str) -> None:
        self._text.append(piece)
        self._progress.text(piece)

    def _think(self, piece: str) -> None:
        self._thinking.append(piece)
        self._progress.thinking(piece)

    def _written_blocks(self) -> list[ContentBlock]:
        blocks: list[ContentBlock] = []
        details = self._details.finish()
        if details:
            blocks.append(
                ProviderReasoningBlock(
                    producer=self._provider, model=self._request.model, details=details
                )
            )
        if any(self._thinking):
            blocks.append(ThinkingBlock(text=clean_text("".join(self._thinking))))
        if any(self._text):
            blocks.append(TextBlock(text=clean_text("".join(self._text))))
        return blocks


def _texts(parts: Iterable[Mapping[str, Any]]) -> list[str]:
    return [_text_of(part.get("text")) for part in parts]


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list):
        return ()
    return [_mapping(item) for item in cast("list[Any]", value)]
