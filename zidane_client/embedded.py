"""The embedded Temporal development server: found, shared, started on demand, ended when unused.

One server per home directory (`ZIDANE_HOME`), with its database, log, locks and state file in it.
Every command that uses it is inside `embedded_server`; the process that owns the server is the
keeper (`keeper.py`). This file does not talk to workflows: it hands out an address.
"""

import asyncio
import fcntl
import json
import logging
import os
import shutil
import socket
import sys
import sysconfig
import time
import zlib
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

import psutil
from google.protobuf.duration_pb2 import Duration
from pydantic import JsonValue
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.service import ConnectConfig, RPCError, ServiceClient

from activities.home import made_home
from zidane_client import keeper
from zidane_client.keeper import SERVER_LOCK, USERS_LOCK, State, answers, read_state
from zidane_core.errors import AgentError, ServerUnreachableError, StoreError

_LOG = logging.getLogger("zidane.embedded")

_DATABASE = "temporal.db"
_LOG_FILE = "temporal.log"
_READY_S = 30.0
_POLL_S = 0.05
_WATCH_S = 1.0
_STARTS = 2
"""Starts that one command tries: the second is for a port that was taken in between."""
_FIRST_PORT, _PORTS, _UI_OFFSET = 15_000, 5_000, 5_000
"""Below the ports that systems give to outgoing connections, so that a port is free again later."""
_STOCK_RETENTION_S = 24 * 3600
_RETENTION_S = 30 * 24 * 3600

_DYNAMIC_CONFIG: Mapping[str, JsonValue] = {
    "history.transferProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxTimeShift": "10ms",
    "history.workflowIdReuseMinimalInterval": "0s",
}
"""What makes the stock development server three to four times faster a step."""


@dataclass(frozen=True)
class EmbeddedServer:
    """A running embedded server."""

    address: str
    """`127.0.0.1:PORT`, for `Client.connect`; the namespace is `default`."""
    ui_url: str
    """`http://127.0.0.1:PORT` of the Temporal UI, which is always on."""
    home: Path
    pid: int
    """Of the server, not of its keeper."""


@dataclass(frozen=True)
class _Options:
    ui: bool
    idle_s: float
    dynamic_config: Mapping[str, JsonValue]


def temporal_binary(folders: Sequence[Path] | None = None) -> Path:
    """Return the `temporal` program.

    Args:
        folders: Where to look, in order. Default: the scripts folder of this Python, which is
            where the `embedded` extra puts it, then the folders of PATH.

    Raises:
        ServerUnreachableError: It is in none of them; says how to get it.
    """
    if folders is None:
        folders = (Path(sysconfig.get_path("scripts")), *map(Path, os.get_exec_path()))
    found = shutil.which("temporal", path=os.pathsep.join(map(str, folders)))
    if found is None:
        raise ServerUnreachableError(
            "No Temporal server is configured, and the program of the embedded one ('temporal') "
            "is not installed. Run: pip install 'zidane[embedded]'. Or set TEMPORAL_ADDRESS to a "
            "running server."
        )
    return Path(found).absolute()


def server_status(home: Path) -> EmbeddedServer | None:
    """Return the home's server when it runs and its port answers, else None; starts nothing."""
    server = _recorded(home.absolute().resolve())
    return server if server is not None and answers(server.address) else None


@asynccontextmanager
async def embedded_server(
    home: Path,
    *,
    ui: bool = False,
    idle_s: float = 10.0,
    dynamic_config: Mapping[str, JsonValue] | None = None,
) -> AsyncGenerator[EmbeddedServer]:
    """Use the home's server, starting it when it does not run.

    The server is shared: it lives while any process is inside, and `idle_s` longer. If it dies
    meanwhile, it is started again within seconds, on the same database and, when free, the same
    port, so that clients reconnect. That needs the event loop to run.

    Args:
        home: Made when missing (0700). Any path, relative or absolute.
        ui: Also wait until the web UI answers. The UI is on in any case.
        idle_s: Seconds without users after which the server ends. Has effect, like
            `dynamic_config`, only for whoever starts the server.
        dynamic_config: Server settings by key, over ours (temporal's dynamic configuration).

    Raises:
        StoreError: The home cannot be made or written.
        ServerUnreachableError: The program is missing, or the server did not serve within 30
            seconds; quotes the end of its log.
    """
    home = made_home(home)
    options = _Options(ui, idle_s, {**_DYNAMIC_CONFIG, **(dynamic_config or {})})
    async with _in_use(home):
        server = await _ensure(home, options)
        watch = asyncio.create_task(_watch(home, options))
        try:
            yield server
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def _watch(home: Path, options: _Options) -> None:
    """Start the server again whenever it is gone."""
    while True:
        await asyncio.sleep(_WATCH_S)
        if _recorded(home) is not None:
            continue
        try:
            server = await _ensure(home, options)
        except AgentError as error:
            _LOG.warning("The embedded Temporal server is gone: %s", error)
            await asyncio.sleep(_READY_S)
        else:
            _LOG.warning("The embedded Temporal server was started again at %s", server.address)


async def _ensure(home: Path, options: _Options) -> EmbeddedServer:
    """Return the running server, after starting it if need be; the caller holds the users' lock."""
    deadline, starts = time.monotonic() + _READY_S, 0
    while time.monotonic() < deadline:
        with _lock(home / SERVER_LOCK, fcntl.LOCK_EX) as lock_fd:
            # A free lock means that neither a keeper nor a server lives.
            if lock_fd is not None and starts == _STARTS:
                raise _unreachable(home, "ended as soon as it was started")
            if lock_fd is not None:
                await _start_keeper(home, lock_fd, options)
                starts += 1
        server = _recorded(home)
        if server is not None and await _serves(server, ui=options.ui):
            return server
        _end_orphans(home)
        await asyncio.sleep(_POLL_S)
    raise _unreachable(home, f"did not serve within {_READY_S:g} seconds")


async def _start_keeper(home: Path, lock_fd: int, options: _Options) -> None:
    """Start a keeper and its server; the lock goes on to both."""
    binary = temporal_binary()
    port, ui_port = _ports(home, read_state(home))
    settings = options.dynamic_config.items()
    # The database is named relative to the working directory: the server reads a "?" or "%" in
    # the path of the home as part of a URL.
    command = (
        f"{binary}", "server", "start-dev", "--log-level", "error",
        "--ip", "127.0.0.1", "--port", f"{port}",
        "--ui-port", f"{ui_port}", "--ui-disable-news-fetch",
        "--db-filename", _DATABASE,
        "--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal",
        *(f"--dynamic-config-value={key}={json.dumps(to)}" for key, to in settings),
    )  # fmt: skip
    state = (f"127.0.0.1:{port}", f"http://127.0.0.1:{ui_port}")
    log = home / _LOG_FILE
    try:
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise _unusable(log, error) from error
    try:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", keeper.__file__,
            f"{home}", f"{lock_fd}", f"{options.idle_s}", *state, *command,
            cwd=home, stdin=asyncio.subprocess.DEVNULL, stdout=log_fd, stderr=log_fd,
            pass_fds=(lock_fd,), start_new_session=True,
        )  # fmt: skip
        await started.wait()
    finally:
        os.close(log_fd)


async def _serves(server: EmbeddedServer, *, ui: bool) -> bool:
    """Say whether Temporal answers, and the UI if asked; sets the retention of `default`."""
    if ui and not answers(server.ui_url.removeprefix("http://")):
        return False
    try:
        service = await ServiceClient.connect(ConnectConfig(target_host=server.address))
        found = await service.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace="default"), timeout=timedelta(seconds=5)
        )
        # Only the stock value is replaced: another one was chosen by a person.
        if found.config.workflow_execution_retention_ttl.seconds == _STOCK_RETENTION_S:
            ttl = Duration(seconds=_RETENTION_S)
            await service.workflow_service.update_namespace(
                UpdateNamespaceRequest(
                    namespace="default",
                    config=NamespaceConfig(workflow_execution_retention_ttl=ttl),
                ),
                timeout=timedelta(seconds=5),
            )
    except (RPCError, RuntimeError):
        return False
    return True


def _recorded(home: Path) -> EmbeddedServer | None:
    """Return the server that the state file names, if it and its keeper live."""
    state = read_state(home)
    if state is None or not _has_keeper(home, state):
        return None
    if (pid := state["pid"]) is None or not psutil.pid_exists(pid):
        return None
    return EmbeddedServer(state["address"], state["ui_url"], home, pid)


def _has_keeper(home: Path, state: State) -> bool:
    pid = state["keeper_pid"]
    try:
        return pid is not None and _role(psutil.Process(pid), home) == "keeper"
    except psutil.Error:
        return False


def _role(process: psutil.Process, home: Path) -> Literal["keeper", "server"] | None:
    """Say what a process is to the home; None for others, also for one that has ended."""
    try:
        words = [Path(word).name for word in process.cmdline()]
        if Path(process.cwd()) != home:
            return None
    except (psutil.Error, OSError):
        return None
    # By the name alone: another installation may use the same home. The keeper comes first, for
    # its command line holds the server's.
    if Path(keeper.__file__).name in words:
        return "keeper"
    return "server" if "start-dev" in words else None


def _end_orphans(home: Path) -> None:
    """End servers of the home whose keeper was killed, where they did not die with it."""
    state = read_state(home)
    if state is None or state["keeper_pid"] is None or _has_keeper(home, state):
        return
    orphans = [found for found in psutil.process_iter() if _role(found, home) == "server"]
    # A keeper records itself before it starts a server: if there is one by now, these are its own.
    if (now := read_state(home)) is not None and _has_keeper(home, now):
        return
    for orphan in orphans:
        with suppress(psutil.NoSuchProcess):
            orphan.kill()


@asynccontextmanager
async def _in_use(home: Path) -> AsyncGenerator[None]:
    """Hold the users' lock, which keeps the server alive; waits while a keeper ends its server."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with _lock(home / USERS_LOCK, fcntl.LOCK_SH) as fd:
            if fd is not None:
                os.utime(fd)
                try:
                    yield
                finally:
                    os.utime(fd)
                return
        await asyncio.sleep(_POLL_S)
    raise _unreachable(home, f"is ending and did not get done within {_READY_S:g} seconds")


@contextmanager
def _lock(path: Path, kind: int) -> Generator[int | None]:
    """Hold a lock on a file if it is free now; gives its descriptor, or None when it is not.

    Raises:
        StoreError: The file cannot be made, written or locked.
    """
    fd = None
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        taken = None
    except OSError as error:
        raise _unusable(path, error) from error
    else:
        taken = fd
    try:
        yield taken
    finally:
        if fd is not None:
            os.close(fd)


def _ports(home: Path, last: State | None) -> tuple[int, int]:
    """Return free ports for the server and its UI, the last ones if possible.

    A home without a past gets ports by its path, so that they seldom change nor clash.
    """
    own = _FIRST_PORT + zlib.crc32(os.fsencode(home)) % (_PORTS - 100)
    wish = () if last is None else (int(last["address"].rpartition(":")[2]),)
    port = _free_port((*wish, *range(own, own + 100)))
    return port, _free_port((port + _UI_OFFSET, 0))


def _free_port(wishes: Iterable[int]) -> int:
    """Return the first port that can be listened on; 0 stands for any."""
    for wish in (*wishes, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", wish))
            probe.listen(1)
            return int(probe.getsockname()[1])
    raise ServerUnreachableError("No port of 127.0.0.1 is free for the embedded Temporal server.")


def _unusable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"Cannot use {str(path)!r}: {error.strerror or error}. The embedded Temporal server keeps "
        "its database there. Set ZIDANE_HOME to a directory that you can write, or set "
        "TEMPORAL_ADDRESS to a running server.",
        path=str(path),
    )


def _unreachable(home: Path, what: str) -> ServerUnreachableError:
    log = home / _LOG_FILE
    try:
        tail = log.read_text(errors="replace")[-2000:].strip()
    except OSError:
        tail = ""
    return ServerUnreachableError(
        f"The embedded Temporal server in {str(home)!r} {what}. End of its log ({log}):\n"
        f"{tail or '(empty)'}",
        home=str(home),
    )
