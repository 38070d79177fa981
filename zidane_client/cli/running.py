"""Runs one command: its event loop, its connection, its errors, its exit code."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.service import RPCError

from activities.home import zidane_home
from worker import connect, task_queue
from zidane_client.cli.exits import Exit, exit_of_error, say_error
from zidane_client.client import ZidaneClient
from zidane_client.connection import configured_address
from zidane_client.embedded import EmbeddedServer, embedded_server
from zidane_client.pollers import live_pollers
from zidane_core.errors import AgentError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass(frozen=True)
class Server:
    """The Temporal server that a command talks to."""

    temporal: Client
    embedded: EmbeddedServer | None
    """Set when it is the home's own."""

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.temporal.service_client.config.target_host

    async def has_worker(self) -> bool:
        """Say whether a worker polls the configured task queue."""
        try:
            return bool(await live_pollers(self.temporal, task_queue()))
        except RPCError:
            return True


@asynccontextmanager
async def server(*, ui: bool = False) -> AsyncGenerator[Server]:
    """Connect to the configured server, or to the home's embedded one, which is then started.

    Raises:
        ServerUnreachableError: It does not answer or cannot be started.
    """
    if configured_address() is not None:
        yield Server(await connect(), None)
        return
    async with embedded_server(zidane_home(), ui=ui) as embedded:
        # The other TEMPORAL_* settings are for another server: a namespace, TLS, a key.
        yield Server(await Client.connect(embedded.address), embedded)


@asynccontextmanager
async def client() -> AsyncGenerator[tuple[ZidaneClient, Server]]:
    """Give a client of the configured or embedded server."""
    async with server() as found, ZidaneClient(found.temporal) as opened:
        yield opened, found


def run_command(
    command: Callable[[], Coroutine[Any, Any, int]],
    *,
    as_json: bool = False,
    serves: bool = False,
) -> NoReturn:
    """Run a command to its exit code, and end the process.

    Args:
        command: Makes the command's coroutine, which returns the exit code.
        as_json: Whether an error is also the JSON document on stdout.
        serves: Whether it runs until Ctrl-C, which is then its good end, and logs warnings.
    """
    level = logging.WARNING if serves else logging.ERROR
    logging.basicConfig(level=level, stream=sys.stderr, format=LOG_FORMAT)
    try:
        asyncio.run(_ended(command, as_json=as_json))
    except KeyboardInterrupt:
        end_process(int(Exit.COMPLETED if serves else Exit.INTERRUPTED))
    raise AssertionError("the process has ended")


async def _ended(command: Callable[[], Coroutine[Any, Any, int]], *, as_json: bool) -> None:
    """Run a command and end the process in its event loop.

    The command has closed what it opened; a task of the SDK that does not take its cancellation
    would keep an event loop that waits for all of them from ever closing.
    """
    try:
        code = int(await command())
    except AgentError as error:
        say_error(error, as_json=as_json)
        code = int(exit_of_error(error))
    except RPCError as error:
        say_error(AgentError(f"The Temporal server refused: {error.message}"), as_json=as_json)
        code = int(Exit.FAILED)
    except BrokenPipeError:
        # Whoever read the output has gone, as in `| head`; what was started goes on.
        code = int(Exit.UNREAD)
    except Exception:
        traceback.print_exc()
        code = int(Exit.FAILED)
    end_process(code)


def end_process(code: int) -> NoReturn:
    """End at once: the Temporal SDK may crash while the interpreter shuts down."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


async def until_interrupted(work: Awaitable[int]) -> int | None:
    """Return what some work came to; None when Ctrl-C ended it, after it was cancelled."""
    task = asyncio.ensure_future(work)
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(ValueError, NotImplementedError, RuntimeError):
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        for pending in (task, waiting):
            pending.cancel()
        await asyncio.wait({task, waiting})
