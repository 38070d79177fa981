"""Gates: places where a tool or a model stream waits until the test lets it go on.

A gate is two files, so that it works across processes and outlives a killed one: whoever
comes to it writes `NAME.reached` and waits for `NAME.open`.
"""

import asyncio
import time
from pathlib import Path

LOOK_S = 0.01
LIMIT_S = 60.0


async def until_file(path: Path, limit_s: float = LIMIT_S) -> None:
    """Return when the file is there.

    Raises:
        AssertionError: It did not come in time.
    """
    end = time.monotonic() + limit_s
    while not path.exists():  # noqa: ASYNC240 -- one stat of a local file
        assert time.monotonic() < end, f"{path} did not come within {limit_s} s"
        await asyncio.sleep(LOOK_S)


class Gates:
    """The gates in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def passing(self, name: str) -> None:
        """Say that the gate is reached, and wait for it to open."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{name}.reached").touch()
        await until_file(self._folder / f"{name}.open")

    async def reached(self, name: str) -> None:
        """Wait until somebody stands at the gate."""
        await until_file(self._folder / f"{name}.reached")

    def open(self, name: str) -> None:
        """Let those who stand at the gate go on, and all who come later."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{name}.open").touch()
