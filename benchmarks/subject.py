"""What is measured: an agent whose model answers at once, and tools that return so many bytes.

The model is a provider double, not the scripted model: it keeps no script, so that a run of
10,000 turns measures the runtime and not the script. It chooses by the number of assistant turns
on the path, so a killed worker changes nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from zidane_core.agent import Agent
from zidane_core.authoring import Tool, tool
from zidane_core.content import TextBlock, ToolCallBlock
from zidane_core.usage import TurnUsage

AGENT = "bench"
PROVIDER = "bench"
PIECE_S = 0.05
"""Between the pieces of a stream that is held open."""


def model_of(calls: int, tool_bytes: int, tool_name: str = "work") -> str:
    """Return the model that calls a tool in each of its first `calls` turns, then stops."""
    return f"{PROVIDER}:{calls},{tool_bytes},{tool_name}"


class Journal:
    """Notes what really ran in a file that survives the worker, and holds work when told to.

    Args:
        folder: Where `journal` and `hold` are; None notes nothing and holds nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def note(self, what: str, number: int, event: str) -> None:
        """Append a line; the file is written at once, so a SIGKILL loses nothing."""
        if self._folder is not None:
            with (self._folder / "journal").open("a") as file:
                file.write(f"{what} {number} {event}\n")

    def is_held(self, what: str, number: int) -> bool:
        """Say whether this piece of work must not end yet."""
        if self._folder is None:
            return False
        hold = self._folder / "hold"
        return hold.exists() and hold.read_text() == f"{what} {number}"


class InstantModel:
    """A model that answers in no time, see the module.

    Args:
        gate: Awaited before each answer with the number of the call, from 0.
        journal: Notes each call when it begins and ends.
    """

    name = PROVIDER
    capabilities = ProviderCapabilities(sends_history=False)
    meta = ProviderMeta()

    def __init__(self, gate: Callable[[int], Awaitable[None]] | None, journal: Journal) -> None:
        self._gate = gate
        self._journal = journal

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Return a tool call, or the last answer."""
        number = request.assistant_turns
        calls, size, name = request.model.split(",")
        if self._gate is not None:
            await self._gate(number)
        self._journal.note("model", number, "begin")
        text = f"Turn {number}."
        sink.text(text)
        while self._journal.is_held("model", number):
            await asyncio.sleep(PIECE_S)
            sink.text(".")
        usage = TurnUsage(input=100, output=10)
        self._journal.note("model", number, "end")
        if number >= int(calls):
            return ModelTurn((TextBlock(text=text),), "stop", usage)
        arguments = {"bytes": int(size), "number": number}
        sink.tool_call(name)
        sink.tool_arguments(json.dumps(arguments))
        call = ToolCallBlock(id=f"call_{number}", name=name, input=dict(arguments))
        return ModelTurn((TextBlock(text=text), call), "tool-calls", usage)

    async def close(self) -> None:
        """Close nothing."""


def subject(journal: Journal) -> Agent:
    """Return the agent; its tools are `work` (has effects), `look` (reads only) and `ask`."""

    @tool
    async def work(bytes: int, number: int) -> str:
        """Return so many bytes; takes part in the world, so it is never run twice."""
        journal.note("tool", number, "begin")
        while journal.is_held("tool", number):  # noqa: ASYNC110  # by another process
            await asyncio.sleep(PIECE_S)
        journal.note("tool", number, "end")
        return _text(bytes, number)

    @tool(read_only=True, concurrency_safe=True, quick=True)
    async def look(bytes: int, number: int) -> str:
        """Return so many bytes."""
        return _text(bytes, number)

    @tool(asks_person=True)
    def ask(bytes: int, number: int) -> str:
        """Wait for a person."""
        raise NotImplementedError

    tools: list[Tool] = [work, look, ask]
    return Agent(AGENT, tools=tools)


def _text(size: int, number: int) -> str:
    line = f"{number}: the quick brown fox jumps over the lazy dog; "
    return (line * (size // len(line) + 1))[:size]
