"""Players drive a scenario, in this process or on a server; a scenario sees no difference."""

import asyncio
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from activities.dependencies import Dependencies, agents_by_name
from activities.inline import InlineRuntime
from activities.providers.registry import Providers
from activities.store import Store
from tests.support.canonical import canonical_result, canonical_session
from tests.support.gates import Gates
from tests.support.scene_agent import AGENT, scene_agent, scene_providers
from zidane_core.control import ControlName
from zidane_core.errors import AgentError
from zidane_core.runs import Phase, parse_request
from zidane_core.values import Json

LOOK_S = 0.02
LIMIT_S = 60.0


@dataclass(frozen=True)
class Played:
    """What a scenario left behind."""

    session: Json
    results: tuple[Json, ...]
    """Each run's result, canonical, in order."""
    log: str
    """What `write_line` wrote."""

    @property
    def turns(self) -> list[Any]:
        turns: Any = self.session["turns"]
        return turns

    @property
    def roles(self) -> list[str]:
        return [turn["role"] for turn in self.turns]

    @property
    def results_of_calls(self) -> dict[str, str]:
        """Text of each call's result by call id."""
        found: dict[str, str] = {}
        for turn in self.turns:
            for block in turn["content"]:
                if block["type"] == "tool_result":
                    output = block["output"]
                    found[block["call_id"]] = output if isinstance(output, str) else str(output)
        return found

    @property
    def texts(self) -> list[str]:
        """Each text block as `role: text`, in order."""
        return [
            f"{turn['role']}: {block['text']}"
            for turn in self.turns
            for block in turn["content"]
            if block["type"] == "text"
        ]


class Player(ABC):
    """Plays one scenario's runs on one session."""

    def __init__(self, store: Store, folder: Path, script: Sequence[Any]) -> None:
        self.store = store
        self.folder = folder
        self.session_id = str(uuid.uuid4())
        self.gates = Gates(folder / "gates")
        self.halts_at: int | None = None
        """Assistant turns before the model call that waits at gate `kill`; None for none."""
        self.results: list[Json] = []
        self.run_ids: list[str] = []
        (folder / "ws").mkdir(parents=True)
        self.write("script.yaml", script)

    def request(self, fields: Json) -> Json:
        wanted: Json = {
            "agent": AGENT,
            "session_id": self.session_id,
            "model": f"scripted:{self.folder / 'script.yaml'}",
            "workspace": str(self.folder / "ws"),
            "stream": False,
            **fields,
        }
        model = wanted["model"]
        names = model if isinstance(model, list) else [model]
        here = [self._model(str(name).replace("HERE", str(self.folder))) for name in names]
        return {**wanted, "model": [*here] if isinstance(model, list) else here[0]}

    def _model(self, target: str) -> str:
        if self.halts_at is None:
            return target
        provider, _, model = target.partition(":")
        return f"halting:{self.halts_at},{provider},{model}"

    async def reached(self, *gates: str) -> None:
        for gate in gates:
            await self.gates.reached(gate)

    def open(self, *gates: str) -> None:
        for gate in gates:
            self.gates.open(gate)

    def write(self, name: str, script: Sequence[Any]) -> None:
        """Add a script to the folder."""
        (self.folder / name).write_text(yaml.safe_dump({"turns": list(script)}))

    async def crash(self, gate: str) -> None:
        """Where a crash test kills the worker; `gate` is where it then must come back to."""
        return

    @abstractmethod
    async def start(self, **fields: Any) -> None:
        """Start a run."""

    @abstractmethod
    async def send(self, name: ControlName, payload: Any = None) -> None:
        """Send a signal; it is taken before whatever the test does next."""

    @abstractmethod
    async def answer(self, call_id: str, answer: Any) -> None:
        """Answer an open question."""

    @abstractmethod
    async def status(self) -> Json:
        """Where the run stands."""

    @abstractmethod
    async def result(self) -> Json:
        """Wait for the run's end; how it ended, also when it failed."""

    async def phase(self, phase: Phase) -> Json:
        """Wait until the run is in a phase."""
        return await self.until(lambda status: status["phase"] == phase.value)

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        """Wait until the run's status is so."""
        end = time.monotonic() + LIMIT_S
        while True:
            status = await self.status()
            if holds(status):
                return status
            assert time.monotonic() < end, f"the run did not get there: {status}"
            await asyncio.sleep(LOOK_S)

    async def played(self) -> Played:
        log = self.folder / "ws" / "log"
        return Played(
            session=await canonical_session(self.store, self.session_id, self.folder),
            results=tuple(canonical_result(result, self.folder) for result in self.results),
            log=log.read_text() if log.exists() else "",
        )


class InlinePlayer(Player):
    """Plays in this process, without Temporal."""

    def __init__(self, store: Store, folder: Path, script: Sequence[Any]) -> None:
        super().__init__(store, folder, script)
        self._deps = Dependencies(
            store=store,
            providers=Providers(scene_providers()),
            agents=agents_by_name([scene_agent()]),
        )
        self._runtime: InlineRuntime | None = None
        self._task: asyncio.Task[Json] | None = None

    async def start(self, **fields: Any) -> None:
        self._runtime = InlineRuntime(self._deps, parse_request(self.request(fields)))
        self.run_ids.append(self._runtime.run_id)
        self._task = asyncio.create_task(self._run(self._runtime))

    @staticmethod
    async def _run(runtime: InlineRuntime) -> Json:
        try:
            return (await runtime.run()).full()
        except AgentError as error:
            result = error.details["result"]
            assert isinstance(result, dict)
            return result

    async def send(self, name: ControlName, payload: Any = None) -> None:
        assert self._runtime is not None
        self._runtime.send(name, payload)

    async def answer(self, call_id: str, answer: Any) -> None:
        assert self._runtime is not None
        self._runtime.answer(call_id, answer)

    async def status(self) -> Json:
        assert self._runtime is not None
        return self._runtime.status().model_dump(mode="json")

    async def result(self) -> Json:
        assert self._task is not None
        result = await asyncio.wait_for(self._task, LIMIT_S)
        self.results.append(result)
        return result


class TemporalPlayer(Player):
    """Plays on a server; who polls the queue is the test's business."""

    def __init__(
        self, client: Client, queue: str, store: Store, folder: Path, script: Sequence[Any]
    ) -> None:
        super().__init__(store, folder, script)
        self._client = client
        self._queue = queue
        self.handles: list[WorkflowHandle[Any, Any]] = []

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.handles[-1]

    async def start(self, **fields: Any) -> None:
        handle = await self._client.start_workflow(
            "AgentRun",
            self.request(fields),
            id=f"zidane-{self.session_id}",
            task_queue=self._queue,
        )
        self.handles.append(handle)
        self.run_ids.append(str(handle.first_execution_run_id))

    async def send(self, name: ControlName, payload: Any = None) -> None:
        await (self.handle.signal(name) if payload is None else self.handle.signal(name, payload))

    async def answer(self, call_id: str, answer: Any) -> None:
        await self.handle.execute_update("answer", {"call_id": call_id, "answer": answer})

    async def status(self) -> Json:
        return await self.handle.query("status")

    async def result(self) -> Json:
        try:
            result: Json = await asyncio.wait_for(self.handle.result(), LIMIT_S)
        except WorkflowFailureError as error:
            if not isinstance(error.cause, ApplicationError):
                raise
            result = error.cause.details[0]
        self.results.append(result)
        return result
