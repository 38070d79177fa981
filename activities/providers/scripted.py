"""The scripted model: plays a written script, offline and the same every time."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.classify import Answer, classify_answer, scripted_failure
from activities.providers.progress import Progress
from activities.providers.script_file import (
    ScriptedError,
    ScriptedTurn,
    cached_script,
    load_script,
)
from activities.providers.token_estimate import CHARS_PER_TOKEN, block_chars
from zidane_core.content import (
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    clean_json,
    clean_text,
    tool_result_to_text,
)
from zidane_core.errors import ProviderFailure
from zidane_core.session import Message
from zidane_core.usage import TurnUsage

__all__ = ["ScriptedProvider", "load_script"]

_PLACEHOLDER = re.compile(r"\{\{ *(last_result|turn|prompt) *\}\}")


class ScriptedProvider:
    """Answers from a script file; the model's name is the file's path.

    The entry is chosen by the number of assistant turns on the path, so that it keeps no state
    and a killed worker changes nothing. Past the end it answers with empty text and `stop`.

    Implements: PROV-01.
    """

    name = "scripted"
    capabilities = ProviderCapabilities(
        images=True,
        documents=True,
        audio=True,
        video=True,
        tool_result_images=True,
        sends_history=False,
    )

    meta = ProviderMeta()

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Play the entry of this turn; see `Provider.stream`.

        Raises:
            InvalidRequestError: The script file is missing or broken.
        """
        path = request.model
        # Parsing a long script takes a while, so not in the event loop.
        script = cached_script(path) or await asyncio.to_thread(load_script, path)
        at = request.assistant_turns
        entry = _filled(script.turns[at], request) if at < len(script.turns) else ScriptedTurn()
        progress = Progress(sink)
        await _play(entry, request.attempt, progress)
        blocks = _blocks(entry, at)
        has_calls = bool(entry.tool_calls)
        return ModelTurn(
            blocks=blocks,
            finish_reason=entry.finish_reason or ("tool-calls" if has_calls else "stop"),
            usage=_usage(entry, blocks, request),
        )

    async def close(self) -> None:
        """Close nothing: there is no connection."""


async def _play(entry: ScriptedTurn, attempt: int, progress: Progress) -> None:
    error = entry.error if entry.error is not None and attempt <= entry.error.times else None
    is_first = True
    for kind, piece in _pieces(entry, error):
        if not is_first:
            await asyncio.sleep(entry.delay_ms / 1000)
        is_first = False
        if kind == "text":
            progress.text(piece)
        else:
            progress.thinking(piece)
    if error is not None:
        raise progress.failed(_failure(error))
    for call in entry.tool_calls:
        progress.tool_call(call.name)
        progress.tool_arguments(json.dumps(call.input, ensure_ascii=False))
    if entry.hang_ms:
        await asyncio.sleep(entry.hang_ms / 1000)


def _pieces(entry: ScriptedTurn, error: ScriptedError | None) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each piece; with an error only what comes before it."""
    text = entry.text if error is None else entry.text[: error.after_chars]
    # A failure before the first character is one before the answer began.
    thinking = "" if error is not None and error.after_chars == 0 else entry.thinking
    for kind, whole in (("thinking", thinking), ("text", text)):
        size = entry.chunk_chars or max(1, len(whole))
        for start in range(0, len(whole), size):
            yield kind, whole[start : start + size]


def _failure(error: ScriptedError) -> ProviderFailure:
    if error.kind is not None:
        made = scripted_failure("scripted", error.kind, status=error.status, message=error.message)
    else:
        made = classify_answer("scripted", Answer(status=error.status, message=error.message))
        if error.message is not None:
            made = made.model_copy(update={"message": error.message})
    return made.model_copy(update={"retry_after_ms": error.retry_after_ms})


def _blocks(entry: ScriptedTurn, turn: int) -> tuple[ContentBlock, ...]:
    blocks: list[ContentBlock] = []
    if entry.thinking:
        blocks.append(ThinkingBlock(text=entry.thinking))
    if entry.text:
        blocks.append(TextBlock(text=entry.text))
    blocks.extend(
        ToolCallBlock(id=call.id or f"call_{turn}_{number}", name=call.name, input=call.input)
        for number, call in enumerate(entry.tool_calls)
    )
    return tuple(blocks)


def _usage(
    entry: ScriptedTurn, blocks: tuple[ContentBlock, ...], request: ModelRequest
) -> TurnUsage:
    """Return the entry's usage; without one, estimates of what is new since the last answer."""
    if entry.usage is not None:
        given = TurnUsage.unpacked(entry.usage.packed())
    else:
        # Only what is new, so that the cost of a turn does not grow with the conversation.
        new = sum(block_chars(block) for block in _new_blocks(request.messages))
        written = len(entry.thinking) + sum(block_chars(block) for block in blocks)
        given = TurnUsage(input=_tokens(new), output=_tokens(written))
    return given.model_copy(
        update={
            "model_id": entry.model or given.model_id or Path(request.model).name,
            "provider": given.provider or "scripted",
        }
    )


def _tokens(chars: int) -> int:
    return max(1, chars // CHARS_PER_TOKEN)


def _new_blocks(messages: tuple[Message, ...]) -> Iterator[ContentBlock]:
    for message in reversed(messages):
        if message.role == "assistant":
            return
        yield from message.content


def _filled(entry: ScriptedTurn, request: ModelRequest) -> ScriptedTurn:
    """Return the entry with its placeholders filled in: in its text and its calls' strings."""
    values = _Values(request)
    calls = tuple(
        call.model_copy(update={"input": clean_json(values.fill_json(call.input))})
        for call in entry.tool_calls
    )
    return entry.model_copy(
        update={"text": clean_text(values.fill(entry.text)), "tool_calls": calls}
    )


class _Values:
    """What the placeholders stand for in one request; looked up only when used."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request

    def fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: self._value(match[1]), text)

    def fill_json(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, list):
            return [self.fill_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.fill_json(item) for key, item in value.items()}
        return value

    def _value(self, name: str) -> str:
        if name == "turn":
            return str(self._request.assistant_turns)
        return self._last_result() if name == "last_result" else self._prompt()

    def _last_result(self) -> str:
        for message in reversed(self._request.messages):
            for block in reversed(message.content):
                if isinstance(block, ToolResultBlock):
                    return tool_result_to_text(block.output)
        return ""

    def _prompt(self) -> str:
        first = next((m for m in self._request.messages if m.role == "user"), None)
        blocks = first.content if first is not None else ()
        return "".join(
            block.text
            for block in blocks
            if isinstance(block, TextBlock) and block.system_note is None
        )
