"""The keeper: a small process that owns one embedded Temporal server and ends it when unused.

It is run as a file (`python keeper.py HOME LOCK_FD IDLE_S ADDRESS UI_URL COMMAND...`, with HOME as
working directory) and imports nothing but the standard library, so that it starts in some 40 ms
and stays under 13 MB. It does not know Temporal: it starts COMMAND, says in the state file when its
port answers, and watches who uses it. Whether the server really serves is `embedded.py`'s
question, and so is starting another one when this one dies.

Files in HOME:
    temporal.lock   exclusively locked for as long as a keeper or its server lives: the command
                    that starts a keeper takes it and hands the open descriptor on
    users.lock      locked shared by every command that uses the server
    temporal.json   the state: see `State`
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypedDict, cast

SERVER_LOCK = "temporal.lock"
USERS_LOCK = "users.lock"
STATE_FILE = "temporal.json"

_PR_SET_PDEATHSIG = 1
_STOP_S = 10.0
"""How long a server may take to end by itself; it needs about 1.4."""


class State(TypedDict):
    """What the state file says. After an end both ids are None and the address is a wish."""

    address: str
    """`127.0.0.1:PORT`."""
    ui_url: str
    keeper_pid: int | None
    """Set before the server is started."""
    pid: int | None
    """The server's, set when its port has answered."""


def read_state(home: Path) -> State | None:
    """Return the state of the home's server, or None when there is none or it is unreadable."""
    try:
        found: object = json.loads((home / STATE_FILE).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or State.__required_keys__ - found.keys():
        return None
    return cast("State", cast("object", found))


def write_state(home: Path, state: State) -> None:
    """Replace the state file, in one step, readable by its owner alone."""
    draft = home / f"{STATE_FILE}.{os.getpid()}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(state, file)
    draft.replace(home / STATE_FILE)


def answers(address: str, *, timeout_s: float = 1.0) -> bool:
    """Say whether something accepts connections at `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout_s):
            return True
    except OSError:
        return False


class _Users:
    """Who uses the server, as the lock on `users.lock` tells."""

    def __init__(self, home: Path) -> None:
        self._fd = os.open(home / USERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        self._touched = self._touch()
        self._idle_since = time.monotonic()

    def _touch(self) -> int:
        return os.fstat(self._fd).st_mtime_ns

    def gone_for(self, idle_s: float) -> bool:
        """Say whether nobody was there for that long; if so the lock is kept, for good."""
        now = time.monotonic()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._idle_since = now
            return False
        # Users touch the file: one that came and went between two looks counts too.
        if (touched := self._touch()) != self._touched:
            self._touched, self._idle_since = touched, now
        if now - self._idle_since >= idle_s:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False


def _start(command: list[str], lock_fd: int) -> subprocess.Popen[bytes]:
    """Start the server; where the system can, it dies with this process."""
    keeper = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_keeper() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)

    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, pass_fds=(lock_fd,), preexec_fn=die_with_keeper
    )


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _keep(server: subprocess.Popen[bytes], home: Path, state: State, idle_s: float) -> None:
    """Return when the server has ended or was not used for `idle_s`."""
    users = _Users(home)
    while server.poll() is None and not users.gone_for(idle_s):
        if state["pid"] is None and answers(state["address"]) and server.poll() is None:
            state["pid"] = server.pid
            write_state(home, state)
        time.sleep(0.03 if state["pid"] is None else min(0.25, idle_s / 4))


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def main(arguments: list[str]) -> None:
    """Detach, start the server, keep it, end it."""
    home, lock_fd, idle_s, address, ui_url, *command = arguments
    # The command that waits for this process is free again, and nobody has to reap the keeper.
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _leave)
    here = Path(home)
    state = State(address=address, ui_url=ui_url, keeper_pid=os.getpid(), pid=None)
    write_state(here, state)
    server = _start(command, int(lock_fd))
    try:
        _keep(server, here, state, float(idle_s))
    finally:
        _stop(server)
        # A home that was removed and made again belongs to another keeper.
        if (last := read_state(here)) is not None and last["keeper_pid"] == os.getpid():
            write_state(here, State(address=address, ui_url=ui_url, keeper_pid=None, pid=None))


if __name__ == "__main__":
    main(sys.argv[1:])
