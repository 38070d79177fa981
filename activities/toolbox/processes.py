"""Runs a command so that nothing of it outlives its call: session, bounded pipe, watch, mark.

The command's own exit ends the call, never the end of its output: a child left behind may
hold the pipe for ever. Stated policy: what a command leaves running is killed when its call
ends, however it ends. If the worker is killed, a small watching shell, which notices that the
worker's end of a pipe has closed, kills the command's processes; `kill_leftovers` finds those
that survived even that.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from activities.toolbox.process_tree import MARK_VARIABLE, CallMark, Family, send

TERM_GRACE_S = 2.0
"""From SIGTERM to SIGKILL."""

_READ_BYTES = 65_536
_MAX_DRAINED_BYTES = 1_048_576
_KILL_TIMEOUT_S = 3.0
_KILL_PAUSE_S = 0.01
_POLL_S = 0.02

# Reads one line; at the end of its input without one, the worker is dead. Only Linux shows the
# environments of others in /proc; elsewhere the group is all that is killed.
_WATCH = f"""
read -r word; [ "$word" = done ] && exit 0
for round in 1 2 3; do
  kill -9 -- "-$1" 2>/dev/null
  for file in $(grep -lzxF -e "{MARK_VARIABLE}=$2" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${{file#/proc/}}; kill -9 "${{pid%/environ}}" 2>/dev/null
  done
done
"""


class Command:
    """A running command and all that it starts. Make it with `start`, end it with `close`.

    Implements: K-SHELL-01, K-SHELL-02, K-TEMPORAL-14.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        mark: CallMark,
        output: int,
        on_output: Callable[[bytes], None],
    ) -> None:
        self._process = process
        self._mark = mark
        self._family = Family(mark, root=process.pid)
        self._output: int | None = output
        self._on_output = on_output
        self._watch: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        os.set_blocking(output, False)
        asyncio.get_running_loop().add_reader(output, self._read)

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        mark: CallMark,
        on_output: Callable[[bytes], None],
    ) -> "Command":
        """Start a command in a session of its own, without terminal or input.

        Args:
            arguments: Program and arguments.
            folder: Its working directory.
            environment: All of its environment but the mark.
            mark: The call's mark, with the run's id.
            on_output: Gets stdout and stderr as they come, in order; called in the event loop.

        Raises:
            OSError: The program cannot be started.
        """
        output, inherited = os.pipe()
        try:
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env={**environment, MARK_VARIABLE: mark.value},
                stdin=subprocess.DEVNULL,
                stdout=inherited,
                stderr=inherited,
                start_new_session=True,
            )
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(inherited)
        command = cls(process, mark=mark, output=output, on_output=on_output)
        try:
            command._start_watch()
        except OSError:
            command._abandon()
            raise
        return command

    def _start_watch(self) -> None:
        end, self._lifeline = os.pipe()
        try:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "zidane-watch", str(self._process.pid), self._mark.value],
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(end)

    def _abandon(self) -> None:
        self.kill_now()
        self._close_output()
        self._release_watch()
        self._process.wait()

    def _release_watch(self) -> None:
        if self._lifeline is not None:
            with suppress(BrokenPipeError):
                os.write(self._lifeline, b"done\n")
            os.close(self._lifeline)
            self._lifeline = None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None until `close`."""
        return self._process.returncode

    async def exited(self) -> None:
        """Wait for the command's own exit, whatever it left behind."""
        await _exited(self._process)

    async def terminate(self) -> None:
        """Send SIGTERM to all, wait up to two seconds for them to end, then SIGKILL the rest."""
        send(self._family.living(), signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + TERM_GRACE_S
        while self._family.living() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - no event tells that a process of others has ended
            await asyncio.sleep(_POLL_S)
        await self.kill()

    async def kill(self) -> int:
        """Kill all processes of the call that are alive; return how many there were."""
        return await _kill(self._family)

    def kill_now(self) -> None:
        """Send SIGKILL to all, without waiting; for a call that is being cancelled."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        send(self._family.living(), signal.SIGKILL)

    async def close(self) -> None:
        """Take what output there is, reap the command and let its watch go. Kill it before."""
        if self._output is not None:
            self._drain()
            self._close_output()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILL_TIMEOUT_S):
                await self.exited()
        self._process.poll()
        self._release_watch()
        if self._watch is not None:
            await _exited(self._watch)
            self._watch.poll()

    def _read(self) -> int:
        if self._output is None:
            return 0
        try:
            data = os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self._on_output(data)
        else:
            self._close_output()
        return len(data)

    def _drain(self) -> None:
        # The writers are dead, so the pipe's own capacity is the bound; the number guards against
        # one that could not be killed.
        drained = 0
        while drained < _MAX_DRAINED_BYTES and (size := self._read()):
            drained += size

    def _close_output(self) -> None:
        if self._output is not None:
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            self._output = None


async def _exited(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        # No such call outside of Linux; polling also reaps, so the id may be used again after.
        while process.poll() is None:  # noqa: ASYNC110 - nothing portable tells of it
            await asyncio.sleep(_POLL_S)
        return
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.add_reader(descriptor, lambda: done.done() or done.set_result(None))
    try:
        await done
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _kill(family: Family) -> int:
    killed: set[int] = set()
    deadline = asyncio.get_running_loop().time() + _KILL_TIMEOUT_S
    # A process that forked just before it was killed leaves a child: look until there is none.
    while pids := family.living():
        send(pids, signal.SIGKILL)
        killed.update(pids)
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(_KILL_PAUSE_S)
    return len(killed)


async def kill_leftovers(call_id: str, *, run_id: str | None = None) -> int:
    """Kill what an earlier attempt of a call left running on this machine.

    Args:
        call_id: The call's id.
        run_id: The run's id; None kills the processes of that call id in every run, so give it
            unless call ids are unique on the machine.

    Returns:
        How many processes were killed; 0 when there were none.

    Implements: FILE-12, K-SHELL-02.
    """
    return await _kill(Family(CallMark(call_id, run_id)))


def find_shell() -> str:
    """Return the path of bash, or of sh where there is no bash."""
    return shutil.which("bash") or "/bin/sh"
