"""Runs an agent inline on a store of its own, with a provider that plays a list of turns."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime
from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.registry import Providers
from activities.store import Store, open_store
from zidane_core.agent import Agent
from zidane_core.clock import AgentClock
from zidane_core.content import TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.runs import RunRequest, RunResult
from zidane_core.usage import TurnUsage

Play = Callable[[ModelRequest, StreamSink], Awaitable[ModelTurn]]


def says(text: str, **usage: Any) -> ModelTurn:
    """Return a final turn of text."""
    blocks = (TextBlock(text=text),) if text else ()
    return ModelTurn(blocks, "stop", TurnUsage(**usage))


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "", **usage: Any) -> ModelTurn:
    """Return a turn of tool calls, with ids a0, a1, ..."""
    blocks = tuple(
        ToolCallBlock(id=f"a{index}", name=name, input=arguments)
        for index, (name, arguments) in enumerate(wanted)
    )
    said = (TextBlock(text=text),) if text else ()
    return ModelTurn((*said, *blocks), "tool-calls", TurnUsage(**usage))


@dataclass
class PlayedModel:
    """A provider that answers by the number of assistant turns; a callable entry is awaited."""

    turns: Sequence[ModelTurn | Play]
    name: str = "played"
    capabilities: ProviderCapabilities = field(default_factory=ProviderCapabilities)
    meta: ProviderMeta = field(default_factory=ProviderMeta)
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Report the entry's text and calls, and return it."""
        self.requests.append(request)
        entry = self.turns[min(request.assistant_turns, len(self.turns) - 1)]
        if not isinstance(entry, ModelTurn):
            return await entry(request, sink)
        for block in entry.blocks:
            if isinstance(block, TextBlock):
                sink.text(block.text)
            elif isinstance(block, ToolCallBlock):
                sink.tool_call(block.name)
        return entry

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Bench:
    """A store, a model and an agent, ready to run."""

    store: Store
    model: PlayedModel
    agent: Agent
    workspace: Path

    def runtime(
        self, prompt: str = "go", *, clock: AgentClock | None = None, **request: Any
    ) -> InlineRuntime:
        """Return a run that has not begun."""
        deps = Dependencies(
            store=self.store,
            providers=Providers({"played": self.model}),
            agents=agents_by_name([self.agent]),
        )
        wanted = {
            "agent": self.agent.name,
            "prompt": prompt,
            "model": "played:m",
            "workspace": str(self.workspace),
            **request,
        }
        return InlineRuntime(deps, RunRequest.model_validate(wanted), clock=clock)

    async def run(self, prompt: str = "go", **request: Any) -> RunResult:
        """Run to the end."""
        return await self.runtime(prompt, **request).run()


def sent_results(request: ModelRequest) -> list[ToolResultBlock]:
    """Return every tool result that a request carries, in order."""
    blocks = (block for message in request.messages for block in message.content)
    return [block for block in blocks if isinstance(block, ToolResultBlock)]


def sent_calls(request: ModelRequest) -> list[ToolCallBlock]:
    """Return every tool call that a request carries, in order."""
    blocks = (block for message in request.messages for block in message.content)
    return [block for block in blocks if isinstance(block, ToolCallBlock)]


@asynccontextmanager
async def bench(
    tmp_path: Path, turns: Sequence[ModelTurn | Play], **agent: Any
) -> AsyncGenerator[Bench]:
    """Open a bench in a folder; `agent` are the Agent's own arguments."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    store = await open_store(f"sqlite:///{tmp_path / 'bench.db'}")
    try:
        yield Bench(store, PlayedModel(turns), Agent("tester", **agent), workspace)
    finally:
        await store.close()
