"""`zidane demo`: a worker is killed in mid-run, and nothing is lost or repeated. Offline."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from rich.console import Console
from rich.text import Text
from temporalio.client import Client

from activities.home import made_home
from zidane_client.cli.demo_claims import Claim, check_claims
from zidane_client.cli.demo_worker import DemoPlace, DemoWorkers, demo_workers
from zidane_client.cli.demo_workspace import PROMPT, make_workspace
from zidane_client.cli.exits import Exit
from zidane_client.cli.render import Screen, make_console
from zidane_client.cli.wording import counted, duration, money, one_line, size
from zidane_client.client import ZidaneClient
from zidane_client.embedded import embedded_server
from zidane_client.following import Piece, TurnShown, Voided
from zidane_client.handle import RunHandle
from zidane_core.errors import AgentError, InternalError
from zidane_core.runs import RunResult

LIMIT_S = 120.0
KILLED_TURN = 3
KILLED_AFTER_CHARS = 60
_SCRIPT = "demo_script.yaml"


async def demo(*, keep: bool) -> int:
    """Run the demo; the exit code is 0 only when every claim is true."""
    console = make_console()
    with _folders(keep=keep) as (home, folder):
        idle_s = 10.0 if os.environ.get("ZIDANE_HOME") else 1.0
        console.print(
            "[bold]zidane demo[/bold][dim] · offline: a scripted model, real tools, a real "
            "Temporal server[/dim]"
        )
        steps = _Steps(console)
        async with embedded_server(home, idle_s=idle_s) as server:
            steps.say("server", f"Temporal {server.address}, UI {server.ui_url}")
            workspace = folder / "workspace"
            make_workspace(workspace)
            place = DemoPlace(home, workspace, server.address, f"zidane-demo-{os.getpid()}")
            temporal = await Client.connect(server.address)
            async with (
                ZidaneClient(temporal, store=place.store_url, task_queue=place.queue) as client,
                demo_workers(place, temporal) as workers,
            ):
                code = await _within_limit(_Demo(console, steps, place, client, workers))
        if keep or os.environ.get("ZIDANE_HOME"):
            console.print(f"\n[dim]Kept: {home} and {folder}[/dim]", soft_wrap=True)
    return code


async def _within_limit(shown: "_Demo") -> int:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await shown.run()
    except TimeoutError as error:
        raise InternalError(f"The demo did not end within {LIMIT_S:g} s.") from error


@contextmanager
def _folders(*, keep: bool) -> Generator[tuple[Path, Path]]:
    """Give the home, `ZIDANE_HOME` if set, and a scratch folder; new ones go at the end."""
    folder = Path(tempfile.mkdtemp(prefix="zidane-demo-"))
    named = os.environ.get("ZIDANE_HOME")
    try:
        yield made_home(Path(named) if named else folder / "home"), folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


class _Steps:
    """Prints what the demo itself does, with the time since its start."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._began

    def say(self, name: str, text: str, style: str = "") -> None:
        line = Text(f"{self.now():5.1f} s  ", style="dim")
        line.append(f"{name:<10}", style=f"bold not dim {style}").append(text, style="not dim")
        self._console.print(line)


class _Demo:
    """One demo."""

    def __init__(
        self,
        console: Console,
        steps: _Steps,
        place: DemoPlace,
        client: ZidaneClient,
        workers: DemoWorkers,
    ) -> None:
        self._console = console
        self._steps = steps
        self._place = place
        self._client = client
        self._workers = workers
        self._screen = Screen(console)
        self._cut_text = ""
        self._killed_at: float | None = None
        self._up_at: float | None = None
        self._again_at: float | None = None
        self._next_turn_at: float | None = None

    async def run(self) -> int:
        pid = await self._workers.start()
        await self._workers.until_polling()
        self._steps.say("worker", f"process {pid} polls")
        script = Path(str(files("zidane_client.cli").joinpath(_SCRIPT)))
        handle = await self._client.start(
            "demo", PROMPT, model=f"scripted:{script}", workspace=self._place.workspace
        )
        self._steps.say("run", PROMPT)
        self._console.print()
        await self._watch(handle)
        try:
            result = await handle.result()
        except AgentError as error:
            self._steps.say("failed", error.message, "red")
            return Exit.FAILED
        self._console.print()
        await self._recap(handle, result)
        claims = await check_claims(self._place, handle, result, cut_text=self._cut_text)
        claims.insert(0, self._recovered())
        return self._verdict(claims)

    async def _watch(self, handle: RunHandle) -> None:
        turns, text = 0, ""
        async for shown in handle.follow():
            match shown:
                case Piece():
                    text += shown.text
                case Voided():
                    self._again_at = self._steps.now()
                    self._steps_after_stream("again", "the new worker makes the model call again")
                    text = ""
                    continue
                case TurnShown():
                    turns, text = turns + 1, ""
                    if self._killed_at is not None and self._next_turn_at is None:
                        self._next_turn_at = self._steps.now()
                case _:
                    pass
            self._screen.show(shown)
            is_mid_stream = turns == KILLED_TURN - 1 and len(text) >= KILLED_AFTER_CHARS
            if is_mid_stream and self._killed_at is None:
                await self._replace_worker(text)

    async def _replace_worker(self, text: str) -> None:
        """Kill the worker in the middle of a model stream, and start another one."""
        self._cut_text = text
        await self._workers.kill()
        self._killed_at = self._steps.now()
        said = one_line(text, 28)
        self._steps_after_stream("SIGKILL", f'the worker, in mid-stream: "{said}"', "red")
        pid = await self._workers.start()
        await self._workers.until_polling()
        self._up_at = self._steps.now()
        self._steps.say("worker", f"process {pid} polls; the server waits for 10 s of silence")

    def _steps_after_stream(self, name: str, text: str, style: str = "") -> None:
        self._screen.end_line()
        self._console.print()
        self._steps.say(name, text, style)

    def _recovered(self) -> Claim:
        if self._killed_at is None or self._next_turn_at is None or self._up_at is None:
            return Claim("a worker was killed in mid-stream", is_true=False)
        after = int((self._next_turn_at - self._up_at) * 1000)
        return Claim(
            "a worker was killed in mid-stream, another took over",
            is_true=self._again_at is not None,
            detail=f"in {duration(max(after, 0))}",
        )

    async def _recap(self, handle: RunHandle, result: RunResult) -> None:
        stats = result.stats
        tokens = stats.total_in + stats.total_cache_read
        self._steps.say(
            "done",
            f"{counted(stats.turns, 'turn')}, {tokens:,} tokens in, {stats.total_out:,} out, "
            f"{money(stats.cost)}",
        )
        turns = await handle.transcript()
        content = sum(len(turn.model_dump_json(exclude_defaults=True)) for turn in turns)
        histories = await handle.history()
        events = sum(len(history.events) for history in histories)
        in_history = sum(event.ByteSize() for history in histories for event in history.events)
        self._steps.say("store", f"{counted(len(turns), 'turn')}, {size(content)} of content")
        self._steps.say("history", f"{counted(events, 'event')}, {size(in_history)}, no content")
        self._console.print()

    def _verdict(self, claims: list[Claim]) -> int:
        for claim in claims:
            mark, style = ("✓", "green") if claim.is_true else ("✗", "red")
            line = Text("  ").append(mark, style=style).append(f" {claim.text}")
            if claim.detail:
                line.append(f" ({claim.detail})", style="dim")
            self._console.print(line)
        return Exit.COMPLETED if all(claim.is_true for claim in claims) else Exit.FAILED
