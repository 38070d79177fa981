"""Which processes belong to a tool call, also those that left its group, and how they are ended.

Every command runs in a session of its own and carries a mark in its environment, which its
children inherit. A process belongs to the call when it is in that session, has the mark,
descends from one that does, or was once seen to. Only a process that starts a session and
clears its environment, and whose parent ends before anybody looks, can hide.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK_VARIABLE = "ZIDANE_CALL"
"""Environment variable of a command: the run's id, a slash, the call's id."""

_HAS_PROC = Path("/proc/self/stat").exists()
_READ_BYTES = 131_072
_DEAD_STATES = (b"Z", b"X")
_KERNEL_PARENTS = (0, 2)
_MAX_SCANS = 8
_MAX_LOOKS = 4
_LOOK_PAUSE_S = 0.0005


@dataclass(frozen=True)
class CallMark:
    """What the processes of a call have in their environment."""

    call_id: str
    run_id: str | None = None
    """None finds the call's processes whichever run they are of."""

    @property
    def value(self) -> str:
        """What the environment variable holds."""
        return f"{self.run_id or ''}/{self.call_id}".replace("\0", "")

    def is_in(self, environment: bytes) -> bool:
        """Say whether a process with this environment (NUL between its entries) has the mark."""
        variable = f"{MARK_VARIABLE}=".encode()
        if variable not in environment:
            return False
        wanted = os.fsencode(self.value)
        for entry in environment.split(b"\0"):
            if entry.startswith(variable):
                found = entry.removeprefix(variable)
                return found == wanted if self.run_id else found.endswith(wanted)
        return False


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    session: int
    started: float
    """In a unit of its own; with the id it tells a process from a later one of that id."""

    @property
    def identity(self) -> tuple[int, float]:
        return (self.pid, self.started)

    def environment(self) -> bytes:
        """Return the environment it was started with; empty when it may not be read."""
        try:
            if not _HAS_PROC:
                entries = psutil.Process(self.pid).environ().items()
                return b"\0".join(os.fsencode(f"{name}={value}") for name, value in entries)
            for look in range(_MAX_LOOKS):
                found = _read(f"/proc/{self.pid}/environ")
                if found or self.parent in _KERNEL_PARENTS:
                    return found
                # For a moment, while a process starts another program, it shows none.
                time.sleep(_LOOK_PAUSE_S * look)
        except (OSError, psutil.Error):
            pass
        return b""


class Family:
    """The processes of one call, as they come and go.

    Args:
        mark: What they have in their environment.
        root: Id of the process that all others descend from, not yet reaped; its session is
            theirs. None when it is not known.
    """

    def __init__(self, mark: CallMark, *, root: int | None = None) -> None:
        self._mark = mark
        self._root = root
        self._since = 0.0
        if root is not None:
            self._since = next((found.started for found in _processes(root)), 0.0)
        self._seen: set[tuple[int, float]] = set()

    def living(self) -> tuple[int, ...]:
        """Return the ids of those that are not dead, ascending; this process is never one."""
        for _ in range(_MAX_SCANS):
            newest = _newest_id()
            members = self._scan()
            # A process born while the list was read may be missing from it.
            if members or newest == _newest_id():
                return members
        return ()

    def _scan(self) -> tuple[int, ...]:
        young = [
            process
            for process in _processes()
            if process.started >= self._since and process.pid not in (1, os.getpid())
        ]
        members = {process.pid: process for process in young if self._is_member(process)}
        grown = True
        while grown:
            children = [
                process
                for process in young
                if process.parent in members and process.pid not in members
            ]
            members |= {process.pid: process for process in children}
            grown = bool(children)
        self._seen |= {process.identity for process in members.values()}
        return tuple(sorted(members))

    def _is_member(self, process: _Process) -> bool:
        return (
            process.session == self._root
            or process.identity in self._seen
            or self._mark.is_in(process.environment())
        )


def _newest_id() -> bytes:
    """Return something that changes whenever a process is born; always the same if unknown."""
    return _read("/proc/loadavg").rpartition(b" ")[2] if _HAS_PROC else b""


def _processes(*only: int) -> Iterator[_Process]:
    """Give the processes, or those with the given ids; dead ones only when asked for by id."""
    if not _HAS_PROC:
        yield from _processes_by_psutil(*only)
        return
    for name in map(str, only) if only else os.listdir("/proc"):  # noqa: PTH208 - read on every call, a Path a name is slow
        if name.isdigit():
            with suppress(OSError):
                # The name in parentheses may hold anything, also spaces and parentheses.
                fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
                if only or fields[0] not in _DEAD_STATES:
                    yield _Process(int(name), int(fields[1]), int(fields[3]), float(fields[19]))


def _processes_by_psutil(*only: int) -> Iterator[_Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid in only or (not only and process.status() != psutil.STATUS_ZOMBIE):
                session = os.getsid(process.pid)
                yield _Process(process.pid, process.ppid(), session, process.create_time())


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        pieces: list[bytes] = []
        while piece := os.read(descriptor, _READ_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def send(pids: tuple[int, ...], number: signal.Signals) -> None:
    """Signal processes; those that are gone, or of another user, are passed over."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
