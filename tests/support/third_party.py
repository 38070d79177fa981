"""Mock model services that others wrote: installed once beside the venv, started on a free port.

`aimock` (npm, needs Node) plays fixtures on three wires; `llmock` (PyPI, in a venv of its own)
injects faults and judges how a client took them. Where one cannot be had, `Unavailable` says why
and the tests skip.
"""

import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

CACHE = Path(sys.prefix) / "third_party"
"""Inside the venv: no tracked file, and gone with it."""
AIMOCK = "@copilotkit/aimock@1.43.0"
LLMOCK = "llmock==0.2.2"
INSTALL_LIMIT_S = 150
START_LIMIT_S = 40


class Unavailable(Exception):
    """The server cannot be had on this machine."""


@contextlib.contextmanager
def aimock(*fixtures: Path) -> Generator[str]:
    """Run aimock in strict mode on fixture files; gives its base URL.

    Raises:
        Unavailable: Node or the package cannot be had, or the server does not start.
    """
    program = _aimock_program()
    files = [part for file in fixtures for part in ("-f", f"{file}")]
    port = _free_port()
    command = [program, "-p", f"{port}", *files, "--strict", "--log-level", "silent"]
    with _running(command, f"http://127.0.0.1:{port}", ready="/ready") as url:
        yield url


@contextlib.contextmanager
def llmock() -> Generator[str]:
    """Run llmock; gives its base URL. Errors as `aimock`."""
    program = _llmock_program()
    port = _free_port()
    command = [program, "serve", "--port", f"{port}"]
    with _running(command, f"http://127.0.0.1:{port}", ready="/health") as url:
        yield url


def ask(url: str, body: Any = None, *, method: str | None = None) -> Any:
    """Send JSON to a control endpoint and return its JSON."""
    raw = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, data=raw, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


@functools.cache
def _aimock_program() -> str:
    folder = CACHE / "aimock"
    program = folder / "node_modules" / ".bin" / "llmock"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("node and npm are not installed")
    with _one_at_a_time("aimock"):
        if not program.exists():
            folder.mkdir(parents=True, exist_ok=True)
            # Without a package file of its own npm would climb up to one of the machine's.
            (folder / "package.json").write_text('{"private": true}')
            _install([npm, "install", "-E", "--no-audit", "--no-fund", AIMOCK], folder)
    return f"{program}"


@functools.cache
def _llmock_program() -> str:
    folder = CACHE / "llmock"
    program = folder / "bin" / "llmock"
    with _one_at_a_time("llmock"):
        if not program.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            _install([sys.executable, "-m", "venv", f"{folder}"], folder.parent)
            pip = [f"{folder / 'bin' / 'python'}", "-m", "pip", "install", "--quiet", LLMOCK]
            _install(pip, folder.parent)
    return f"{program}"


@contextlib.contextmanager
def _one_at_a_time(name: str) -> Generator[None]:
    """Processes of one test run install once; the others wait."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(command: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_LIMIT_S, text=True
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took over {INSTALL_LIMIT_S} s") from error
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{command} failed: {error.stderr[-300:]}") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _running(command: Sequence[str], url: str, *, ready: str) -> Generator[str]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        _wait_until_ready(process, url + ready)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"the server ended with code {process.returncode}")
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=2).close()
            return
        time.sleep(0.05)
    raise Unavailable(f"the server was not ready within {START_LIMIT_S} s")
