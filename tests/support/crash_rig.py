"""What the crash tests drive: worker processes to kill, and runs with points to hold them at."""

import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

from activities.store import Store, open_store
from tests.support.crash_points import POLL_S, STALE, read_journal
from zidane_client.embedded import EmbeddedServer
from zidane_core.content import tool_result_to_text
from zidane_core.session import Turn
from zidane_core.tools import INTERRUPTED_RESULT

ROOT = Path(__file__).parents[2]
BOUND_S = 45.0
"""Longest wait for anything: a heartbeat timeout of 10 s, a worker's start, and a busy machine."""

Plan = Sequence[dict[str, Any]]
INTERRUPTED = INTERRUPTED_RESULT


async def until(what: str, found: Callable[[], Any]) -> Any:
    """Return what `found` returns, or awaits, once that is true; fails when it never is."""
    deadline = asyncio.get_running_loop().time() + BOUND_S
    while True:
        value = found()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"{what}: not seen within {BOUND_S:g} s")
        await asyncio.sleep(POLL_S)


class WorkerProcess:
    """One worker process."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        self.name = name
        self._process = process

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def send(self, number: signal.Signals) -> None:
        """Send SIGTERM, SIGSTOP or SIGCONT."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Return the exit code once it has ended by itself."""
        await until(f"end of worker {self.name}", lambda: self._process.poll() is not None)
        return self._process.returncode


@dataclass
class Run:
    """One run on the rig; its session id is unique, so that points of runs do not mix."""

    rig: "Rig"
    plan: Plan
    id: str = field(default_factory=lambda: f"s{uuid.uuid4().hex[:8]}")

    async def start(self, **request: Any) -> "Run":
        """Start the workflow; more fields of the RunRequest may be given."""
        (self.rig.folder / f"{self.id}.plan.json").write_text(json.dumps(self.plan))
        asked = {"agent": "crash", "prompt": "go", "model": f"planned:{self.id}", **request}
        await self.rig.client.start_workflow(
            "AgentRun", asked, id=f"zidane-{self.id}", task_queue=self.rig.queue
        )
        return self

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """The workflow, on the client of the rig."""
        return self.rig.client.get_workflow_handle(f"zidane-{self.id}")

    async def result(self) -> dict[str, Any]:
        """Return the RunResult."""
        async with asyncio.timeout(BOUND_S):
            return cast(dict[str, Any], await self.handle.result())

    async def status(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the status once it is as wanted."""

        async def found() -> dict[str, Any] | None:
            status = cast(dict[str, Any], await self.handle.query("status"))
            return status if is_wanted(status) else None

        return cast(dict[str, Any], await until("the wanted status", found))

    async def phase(self, phase: str) -> dict[str, Any]:
        """Return the status once the run is in a phase."""
        return await self.status(lambda status: status["phase"] == phase)

    # -- points -----------------------------------------------------------------------------

    def arm(self, point: str, *, stale: bool = False) -> None:
        """Hold the first worker that comes to a point of this run.

        Stale: the server hears nothing of the held attempt, nor the attempt of the server.
        """
        (self.rig.folder / "armed" / self._full(point)).write_text(STALE if stale else "")

    async def reached(self, point: str) -> None:
        """Wait until a worker is held there."""
        file = self.rig.folder / "reached" / self._full(point)
        await until(f"point {point!r}", file.exists)

    def release(self, point: str) -> None:
        """Let the held worker go on."""
        (self.rig.folder / "released" / self._full(point)).touch()

    async def passed(self, point: str, worker: str) -> None:
        """Wait until a worker of that name has come to a point."""
        await self._journaled(self._full(point), worker)

    async def cancelled(self, point: str, worker: str) -> None:
        """Wait until a worker whose attempt is stale was told to stop."""
        await self._journaled(f"cancelled {self._full(point)}", worker)

    async def _journaled(self, point: str, worker: str) -> None:
        entry = {"worker": worker, "point": point}
        await until(f"{entry}", lambda: entry in read_journal(self.rig.folder, "points"))

    def _full(self, point: str) -> str:
        return f"{self.id} {point}"

    # -- what happened ----------------------------------------------------------------------

    def requests(self, turn: int | None = None) -> list[dict[str, Any]]:
        """Return the requests that reached the model, in order; of one turn, or of all."""
        entries = read_journal(self.rig.folder, "requests")
        return [e for e in entries if e["session"] == self.id and turn in (None, e["turn"])]

    def bodies(self, tool: str, step: str = "start") -> int:
        """Return how often the tool's body started (or came to its `end`)."""
        entries = read_journal(self.rig.folder, "bodies")
        wanted = (self.id, tool, step)
        return sum((e["session"], e["tool"], e["step"]) == wanted for e in entries)

    async def path(self) -> Sequence[Turn]:
        """Return the conversation as it is stored."""
        store = self.rig.store
        return await store.path(self.id, await store.session_head(self.id))

    async def conversation(self) -> list[tuple[str, str]]:
        """Return the conversation: role and text, or result, of each turn."""
        return [(turn.role, shown(turn)) for turn in await self.path()]

    async def aborted(self) -> list[str]:
        """Return the texts of aborted turns, in order."""
        record = await self.rig.store.latest_run(self.id)
        turns = await self.rig.store.turns_of_run(record.run_id) if record is not None else ()
        return [turn.text for turn in turns if turn.aborted]

    async def live_text(self, turn_id: str | None = None) -> dict[int, str]:
        """Return the live text in the store, by attempt."""
        found: dict[int, str] = {}
        for event in await self.rig.store.events_after(self.id, 0):
            if event.name == "text" and turn_id in (None, event.turn_id):
                delta = str(event.fields["delta"])
                found[event.attempt] = found.get(event.attempt, "") + delta
        return found

    async def streamed(self, attempt: int, text: str) -> None:
        """Wait until watchers can read that an attempt has streamed a text so far."""

        async def is_there() -> bool:
            return (await self.live_text()).get(attempt) == text

        await until(f"live text {text!r} of attempt {attempt}", is_there)

    async def completed_activities(self) -> int:
        """Return how many activity completions the history holds."""
        history = await self.handle.fetch_history()
        done = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
        return sum(event.event_type == done for event in history.events)


def shown(turn: Turn) -> str:
    """Return a turn's text, or its results, joined."""
    results = [tool_result_to_text(result.output) for result in turn.tool_results]
    return turn.text or "; ".join(results)


class Rig:
    """Workers and runs of one test: one folder, one queue, one store."""

    def __init__(self, folder: Path, client: Client, address: str, store: Store) -> None:
        for name in ("armed", "reached", "released"):
            (folder / name).mkdir(parents=True)
        self.folder = folder
        self.client = client
        self.address = address
        self.store = store
        self.queue = f"q{uuid.uuid4().hex[:8]}"
        self._workers: list[WorkerProcess] = []

    def run(self, plan: Plan) -> Run:
        """Return a run that is not started yet, so that points can be armed."""
        return Run(self, plan)

    async def killed_at(self, *held: tuple[Run, str], cached: bool = True) -> None:
        """Start runs, kill their worker `a` once each is at its point, and start worker `b`."""
        for run, point in held:
            run.arm(point)
            await run.start()
        first = self.worker("a", cached=cached)
        for run, point in held:
            await run.reached(point)
        first.kill()
        self.worker("b", cached=cached)

    def worker(self, name: str, *, cached: bool = True) -> WorkerProcess:
        """Start a worker process."""
        command = [
            *(sys.executable, "-m", "tests.support.crash_worker"),
            *(f"{self.folder}", self.address, self.queue, name),
            "cached" if cached else "uncached",
        ]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": f"{ROOT}"},
            )  # fmt: skip
        started = WorkerProcess(name, process)
        self._workers.append(started)
        return started

    def end(self) -> None:
        """Kill what still runs."""
        for worker in self._workers:
            worker.kill()


@asynccontextmanager
async def rig_on(server: EmbeddedServer, folder: Path) -> AsyncGenerator[Rig]:
    """Give a rig on a server, with its files in a folder; ends its workers."""
    client = await Client.connect(server.address)
    store = await open_store("sqlite:///store.db", home=folder)
    rig = Rig(folder, client, server.address, store)
    try:
        yield rig
    finally:
        rig.end()
        await store.close()
