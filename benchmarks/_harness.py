"""What the benchmarks share: server, worker processes, runs, histories, how figures are told."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import psutil
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from benchmarks.subject import AGENT
from zidane_client.embedded import embedded_server

ROOT = Path(__file__).resolve().parent.parent
READY_S = 60.0
Handle = WorkflowHandle[Any, Any]


def cpu_ms(pid: int) -> float:
    """Return the processor time that a process has used, in milliseconds."""
    times = psutil.Process(pid).cpu_times()
    return (times.user + times.system) * 1000


@dataclass
class WorkerProcess:
    """A worker that runs in its own process."""

    process: asyncio.subprocess.Process
    heavy: list[str]
    """Heavy modules that it had loaded when it began to poll; should be empty."""
    peak_bytes: int = 0

    def rss(self) -> int:
        """Return its resident memory in bytes, and keep the peak."""
        found = psutil.Process(self.process.pid).memory_info().rss
        self.peak_bytes = max(self.peak_bytes, found)
        return found

    def cpu_ms(self) -> float:
        """Return the processor time that it has used, in milliseconds."""
        return cpu_ms(self.process.pid)

    async def watch_rss(self) -> None:
        """Look at its memory twice a second until cancelled."""
        while True:
            self.rss()
            await asyncio.sleep(0.5)

    async def stop(self) -> None:
        """End it in good order."""
        if self.process.returncode is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), 20)
            except TimeoutError:
                await self.kill()

    async def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@dataclass
class Bench:
    """A server of its own, a folder, and what was started."""

    folder: Path
    address: str
    client: Client
    server_pid: int
    workers: list[WorkerProcess] = field(default_factory=list[WorkerProcess])

    @property
    def store(self) -> str:
        """URL of our workers' store."""
        return f"sqlite:///{self.folder / 'zidane.db'}"

    async def start_worker(self, side: str, *arguments: str | Path | int) -> WorkerProcess:
        """Start a worker of `zidane` or `floor`, on the queue of that name; wait till it polls."""
        extra = ["--store", self.store] if side == "zidane" else []
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "benchmarks.worker_process", side, self.address, side),
            *extra,
            *map(str, arguments),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), READY_S)
        if not line:
            raise RuntimeError(f"The {side} worker ended before it polled; its log is above.")
        started = WorkerProcess(process, json.loads(line)["heavy"])
        self.workers.append(started)
        return started

    async def start_run(self, session: str, model: str, **more: Any) -> Handle:
        """Start a run of ours."""
        return await self.client.start_workflow(
            "AgentRun",
            {"agent": AGENT, "prompt": "Work.", "model": model, "workspace": str(self.folder)},
            id=f"zidane-{session}",
            task_queue="zidane",
            **more,
        )

    async def start_floor(self, name: str, turns: int, *, local: bool) -> Handle:
        """Start a floor of as many turns."""
        return await self.client.start_workflow(
            "Floor",
            {"turns": turns, "local": local, "first": 0},
            id=f"floor-{name}",
            task_queue="floor",
        )


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    """Give a benchmark its server and folder; workers end with it."""
    with tempfile.TemporaryDirectory(prefix="zb-") as name:
        folder = Path(name)
        async with embedded_server(folder / "home", idle_s=0.5) as server:
            client = await Client.connect(server.address)
            made = Bench(folder, server.address, client, server.pid)
            try:
                yield made
            finally:
                await asyncio.gather(*(worker.stop() for worker in made.workers))
                # The folder goes with its server: nothing of it is needed any more.
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(server.pid).parent().kill()  # pyright: ignore[reportOptionalMemberAccess]  # the keeper is its parent
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(server.pid).kill()


@dataclass
class History:
    """What a run wrote, over all the histories that it continued in."""

    events: int = 0
    bytes: int = 0
    histories: int = 1
    turn_events: float = 0.0
    """Events per turn between the first and the last model call of a history."""
    turn_bytes: float = 0.0


async def history_of(client: Client, handle: Handle, model_activity: str) -> History:
    """Read a run's history from its first event to its last.

    Args:
        client: Connected to the server.
        handle: The run.
        model_activity: Name of the activity with which a turn begins.
    """
    total = History(histories=0)
    run_id = handle.first_execution_run_id
    turns, turn_events, turn_bytes = 0, 0, 0
    while run_id:
        total.histories += 1
        mark: tuple[int, int] | None = None
        following = ""
        async for event in client.get_workflow_handle(
            handle.id, run_id=run_id
        ).fetch_history_events():
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == model_activity:
                if mark is not None:
                    turns += 1
                    turn_events += total.events - mark[0]
                    turn_bytes += total.bytes - mark[1]
                mark = (total.events, total.bytes)
            total.events += 1
            total.bytes += event.ByteSize()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                continued = event.workflow_execution_continued_as_new_event_attributes
                following = continued.new_execution_run_id
        run_id = following
    if turns:
        total.turn_events, total.turn_bytes = turn_events / turns, turn_bytes / turns
    return total


async def until_phase(handle: Handle, phase: str) -> None:
    """Ask a run of ours until it is in this phase.

    Raises:
        RuntimeError: It ended instead.
    """
    while (found := (await handle.query("status"))["phase"]) != phase:
        if found == "done":
            raise RuntimeError(f"Run {handle.id} ended and was never {phase!r}.")
        await asyncio.sleep(0.1)


async def until_quiet(handle: Handle) -> None:
    """Wait until neither an activity nor a workflow task of the run is under way."""
    while True:
        found = (await handle.describe()).raw_description
        if not found.pending_activities and not found.HasField("pending_workflow_task"):
            return
        await asyncio.sleep(0.1)


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def tell(what: str, value: float, budget: str, *, is_met: bool) -> None:
    """Print a figure beside its budget."""
    print(f"{what:<52} {value:>10.3f}   budget {budget:<16} {'met' if is_met else 'MISSED'}")


def run(benchmark: Awaitable[Mapping[str, Any]]) -> NoReturn:
    """Run a benchmark, print its result as the last line, and end the process.

    The exit code is 0 when it finished, whatever the figures, else 1.
    """

    async def measured() -> Mapping[str, Any]:
        return await benchmark

    code = 0
    try:
        print(json.dumps(asyncio.run(measured())))
    except Exception:
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]  # set in a handler
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # The Temporal SDK may crash at interpreter exit.
    os._exit(code)
