"""The `zidane` command as a subprocess, against the test run's server, with a home's store."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import queue_of
from zidane_client.embedded import EmbeddedServer

LIMIT_S = 90


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


@dataclass
class Cli:
    """Runs commands in a folder of its own."""

    folder: Path
    home: Path
    queue: str
    settings: dict[str, str] = field(default_factory=dict[str, str])

    def environment(self, **more: str) -> dict[str, str]:
        """No server, key or setting of the machine that runs the tests."""
        ours = ("TEMPORAL_", "ZIDANE_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "CEREBRAS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "ZIDANE_HOME": str(self.home),
            "ZIDANE_TASK_QUEUE": self.queue,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **self.settings,
            **more,
        }

    async def start(
        self,
        *arguments: str,
        stdout: int = asyncio.subprocess.PIPE,
        more: Mapping[str, str] | None = None,
    ) -> asyncio.subprocess.Process:
        """Start a command."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "zidane_client.cli",
            *arguments,
            env=self.environment(**(more or {})),
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
        )

    async def __call__(self, *arguments: str, **more: str) -> Ended:
        """Run a command to its end."""
        return await ended(await self.start(*arguments, more=more))

    def script(self, text: str, name: str = "script.yaml") -> str:
        """A model that plays a script, by a relative path."""
        (self.folder / name).write_text(text)
        return f"scripted:{name}"


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """Wait for a command's end; one that hangs is killed."""
    try:
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
        raise AssertionError(f"hung: {out.decode()} {err.decode()}") from None
    assert process.returncode is not None
    return Ended(process.returncode, (out or b"").decode(), err.decode())


@pytest.fixture
def cli(server: EmbeddedServer, tmp_path: Path) -> Cli:
    """Commands of one test: own folder, queue and store, the shared server."""
    queue = f"{queue_of('cli')}-{tmp_path.name}"
    settings = {"ZIDANE_STORE": f"sqlite:///{tmp_path / 'store' / 'zidane.db'}"}
    folder = tmp_path / "work"
    folder.mkdir()
    return Cli(folder, server.home, queue, settings)
