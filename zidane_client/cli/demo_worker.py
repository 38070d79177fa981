"""Worker processes of the demo: started, waited for, killed."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from zidane_client.cli.demo_agent import LOG_VARIABLE
from zidane_client.pollers import live_pollers
from zidane_core.errors import InternalError

_READY_S = 60.0
_POLL_S = 0.1
AGENT_PLACE = "zidane_client.cli.demo_agent:agent"


@dataclass(frozen=True)
class DemoPlace:
    """Where a demo keeps its things."""

    home: Path
    workspace: Path
    address: str
    queue: str

    @property
    def store_url(self) -> str:
        """SQLite in the home."""
        return f"sqlite:///{self.home / 'zidane.db'}"

    @property
    def call_log(self) -> Path:
        """A line for each tool body that was run."""
        return self.workspace.parent / "calls.log"

    @property
    def worker_log(self) -> Path:
        """What workers wrote."""
        return self.workspace.parent / "workers.log"

    def environment(self) -> dict[str, str]:
        """Return the environment of a worker: this server and store, whatever is set outside."""
        kept = {name: v for name, v in os.environ.items() if not name.startswith("TEMPORAL_")}
        scripts = str(Path(sys.executable).parent)
        return {
            **kept,
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "ZIDANE_HOME": str(self.home),
            "ZIDANE_STORE": self.store_url,
            "ZIDANE_TASK_QUEUE": self.queue,
            LOG_VARIABLE: str(self.call_log),
            "PATH": f"{scripts}{os.pathsep}{kept.get('PATH', os.defpath)}",
        }


class DemoWorkers:
    """The workers of one demo, one at a time."""

    def __init__(self, place: DemoPlace, temporal: Client) -> None:
        self._place = place
        self._temporal = temporal
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> int:
        """Start a worker; return its process id."""
        with self._place.worker_log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "zidane_client.cli", "worker", AGENT_PLACE,
                env=self._place.environment(), cwd=self._place.home,
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return self._process.pid

    async def until_polling(self) -> None:
        """Return when the worker polls the task queue.

        Raises:
            InternalError: It ended, or did not poll within a minute; quotes its log.
        """
        process = self._process
        deadline = time.monotonic() + _READY_S
        while process is not None and process.returncode is None:
            pollers = await live_pollers(self._temporal, self._place.queue)
            if any(poller.identity.startswith(f"{process.pid}@") for poller in pollers):
                return
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_POLL_S)
        tail = self._place.worker_log.read_text(errors="replace")[-1500:]
        raise InternalError(f"The demo's worker does not poll. Its log ends with:\n{tail}")

    async def kill(self) -> None:
        """End the worker with SIGKILL, if there is one."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def demo_workers(place: DemoPlace, temporal: Client) -> AsyncGenerator[DemoWorkers]:
    """Give the workers of a demo; none outlives it."""
    workers = DemoWorkers(place, temporal)
    try:
        yield workers
    finally:
        await workers.kill()
