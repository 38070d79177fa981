"""The agent, tools and provider that scenarios are played with; also run by worker processes.

A scenario's folder holds `script.yaml`, `gates/` and `ws/`, the workspace of its runs.
"""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    Provider,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.scripted import ScriptedProvider
from activities.toolbox.files import read_file
from activities.toolbox.human import ask_user
from activities.toolbox.shell import shell
from tests.support.gates import Gates
from zidane_core import Agent, ToolContext, ToolError, tool
from zidane_core.content import TextBlock, ThinkingBlock, ToolCallBlock

AGENT = "scenes"
_GATE = re.compile(r"<gate (\w+)>")


def gates_of(ctx: ToolContext) -> Gates:
    return Gates(Path(ctx.workspace).parent / "gates")


@tool(concurrency_safe=True, idempotent=True)
async def look(ctx: ToolContext, name: str) -> str:
    """Wait at a gate, next to others."""
    await gates_of(ctx).passing(name)
    return f"saw {name}"


@tool(idempotent=True)
async def hold(ctx: ToolContext, name: str) -> str:
    """Wait at a gate, alone."""
    await gates_of(ctx).passing(name)
    return f"held {name}"


@tool
async def write_line(ctx: ToolContext, text: str) -> str:
    """Append a line to the log; once per call, or the log shows it."""
    with (Path(ctx.workspace) / "log").open("a") as log:
        log.write(f"{text}\n")
    return f"wrote {text}"


@tool(concurrency_safe=True, read_only=True)
def echo(text: str) -> str:
    """Say it back; a plain function, so it runs in a thread."""
    return text


@tool(read_only=True, quick=True, concurrency_safe=True)
async def glance(text: str) -> str:
    """Say it back from a local activity."""
    return f"glanced {text}"


@tool(concurrency_safe=True, read_only=True)
async def in_thread(text: str) -> str:
    """Say it back by way of a thread."""
    return await asyncio.to_thread(str.upper, text)


@tool(idempotent=True)
async def remember(ctx: ToolContext, key: str, value: str | None = None) -> str:
    """Keep a value under a key; none deletes it."""
    if value is None:
        ctx.state.delete(key)
    else:
        ctx.state.set(key, value)
    return ",".join(ctx.state.keys())


@tool(concurrency_safe=True, read_only=True)
async def recall(ctx: ToolContext, key: str) -> str:
    """Read a kept value."""
    return f"{key} is {ctx.state.get(key)}"


@tool(idempotent=True)
async def boom(ctx: ToolContext, text: str) -> str:
    """Stage a value, then raise."""
    ctx.state.set("boom", text)
    raise ValueError(text)


@tool(read_only=True)
def fussy(text: str) -> str:
    """Refuse in plain words."""
    raise ToolError(f"not {text}")


@tool(read_only=True)
async def big(lines: int) -> str:
    """Return lines of 89 characters."""
    return ("x" * 89 + "\n") * lines


@tool(read_only=True)
async def count(number: int, exact: bool = False) -> str:
    """Take a number."""
    return f"{number + 1} {exact}"


TOOLS = (
    look,
    hold,
    write_line,
    echo,
    glance,
    in_thread,
    remember,
    recall,
    boom,
    fussy,
    big,
    count,
    ask_user,
    read_file,
    shell,
)


class _Silence:
    """A sink that keeps nothing."""

    def text(self, delta: str) -> None: ...

    def thinking(self, delta: str) -> None: ...

    def tool_call(self, name: str) -> None: ...

    def tool_arguments(self, delta: str) -> None: ...
    def server_tool(self, name: str) -> None: ...


class GatedProvider:
    """Plays a script as the scripted provider does, and waits at each `<gate NAME>` of a text."""

    name = "gated"
    capabilities = ProviderCapabilities()
    meta = ProviderMeta()

    def __init__(self) -> None:
        self._scripted = ScriptedProvider()

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        turn = await self._scripted.stream(request, _Silence())
        gates = Gates(Path(request.model).parent / "gates")
        for block in turn.blocks:
            match block:
                case TextBlock():
                    # The pattern has one group, so texts and names of gates take turns.
                    for at, piece in enumerate(_GATE.split(block.text)):
                        if at % 2:
                            await gates.passing(piece)
                        elif piece:
                            sink.text(piece)
                case ThinkingBlock():
                    sink.thinking(block.text)
                case ToolCallBlock():
                    sink.tool_call(block.name)
                case _:
                    pass
        return turn

    async def close(self) -> None:
        return None


class HaltingProvider:
    """Waits at gate `kill` before one model call, then lets another provider answer.

    Its model is `TURN,PROVIDER,MODEL`: it halts when TURN assistant turns are on the path.
    """

    name = "halting"
    capabilities = ProviderCapabilities()
    meta = ProviderMeta()

    def __init__(self) -> None:
        self._providers: dict[str, Provider] = {
            "scripted": ScriptedProvider(),
            "gated": GatedProvider(),
        }

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        turn, provider, model = request.model.split(",", 2)
        if request.assistant_turns == int(turn):
            await Gates(Path(model).parent / "gates").passing("kill")
        return await self._providers[provider].stream(replace(request, model=model), sink)

    async def close(self) -> None:
        return None


def scene_agent() -> Agent:
    return Agent(AGENT, tools=TOOLS, tool_aliases={"echo": "say"}, system="Play the script.")


def scene_providers() -> dict[str, Provider]:
    return {"gated": GatedProvider(), "halting": HaltingProvider()}
