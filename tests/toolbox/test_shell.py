"""The shell tool, and what becomes of the processes that it starts."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from activities.toolbox import kill_leftovers, shell
from activities.toolbox.process_tree import MARK_VARIABLE, CallMark, Family
from activities.toolbox.shell import MAX_OUTPUT_BYTES, command_environment
from tests.toolbox.conftest import context_in
from zidane_core.authoring import ToolContext, ToolError

KILLED = "[background processes were killed when the command ended]"


def alive(ctx: ToolContext) -> tuple[int, ...]:
    return Family(CallMark(ctx.call_id, ctx.run_id)).living()


def named(command: str) -> list[int]:
    """Find processes by their command line, in another way than the code under test."""
    lines = {
        found.pid: " ".join(found.info["cmdline"] or ())
        for found in psutil.process_iter(["cmdline"])
    }
    return [pid for pid, line in lines.items() if line == command]


def start(arguments: list[str], *, mark: CallMark) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, MARK_VARIABLE: mark.value}
    return subprocess.Popen(arguments, cwd=root, env=environment, start_new_session=True)


async def until(condition: Callable[[], object], what: str) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not happen within 10 s")


async def test_the_result_ends_with_the_exit_code(ctx: ToolContext, workspace: Path):
    """BG-08."""
    assert await shell(ctx, "pwd; echo out; echo err >&2") == (
        f"{workspace}\nout\nerr\n[exit code 0]"
    )
    assert await shell(ctx, "exit 3") == "[exit code 3]"
    assert await shell(ctx, "kill -9 $$") == "[killed by SIGKILL]"
    assert ctx.metadata["exit_code"] == -9


async def test_there_is_no_input_and_no_terminal(ctx: ToolContext):
    assert await shell(ctx, "read x; test -t 0 || test -t 1 || echo none") == (
        "none\n[exit code 0]"
    )


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("(sleep 90; echo late) & echo first", "first"),
        ("sleep 90 >/dev/null & echo quiet-out", "quiet-out"),
        ("setsid sleep 90 & echo detached", "detached"),
        ("nohup sleep 90 >/dev/null 2>&1 & echo started", "started"),
        ("set -m; sleep 90 & echo own-group", "own-group"),
        ("(trap '' TERM; setsid setsid sleep 90) & echo stubborn", "stubborn"),
    ],
)
@pytest.mark.timeout(20)
async def test_a_call_ends_with_its_command_and_leaves_nothing(
    ctx: ToolContext, command: str, output: str
):
    """K-SHELL-01: returns at the command's own exit; what it left behind is killed."""
    assert await shell(ctx, command) == f"{output}\n{KILLED}\n[exit code 0]"
    assert alive(ctx) == ()


@pytest.mark.parametrize(
    "command",
    [
        "echo begun; bash -c \"trap '' TERM; (trap '' TERM; sleep 4201) & wait\"",
        "echo begun; find / -name x 2>/dev/null | grep y | sleep 4202",
        "echo begun; setsid --wait bash -c \"trap '' TERM; env -i sleep 4203\"",
    ],
)
@pytest.mark.timeout(30)
async def test_a_timeout_kills_the_whole_tree_and_tells_the_output(ctx: ToolContext, command: str):
    """K-SHELL-02."""
    with pytest.raises(ToolError) as caught:
        await shell(ctx, command, 300)
    assert str(caught.value) == "begun\n[timed out after 300 ms and was killed]"
    assert alive(ctx) == ()
    # Each command sleeps for a time of its own, so that tests beside this one are not seen.
    sleeps = re.findall(r"sleep \d+", command)
    assert [named(line) for line in sleeps] == [[]]


async def test_a_command_may_tidy_up_when_it_times_out(ctx: ToolContext, workspace: Path):
    """K-SHELL-02: SIGTERM comes first."""
    command = "trap 'echo tidy; exit 1' TERM; echo begun; sleep 300 & wait"
    with pytest.raises(ToolError, match=r"begun\ntidy\n\[timed out"):
        await shell(ctx, command, 300)


async def test_cancelling_a_call_kills_its_processes(ctx: ToolContext, workspace: Path):
    """K-TEMPORAL-14."""
    call = asyncio.create_task(shell(ctx, "setsid sleep 600 & sleep 600 & touch begun; sleep 600"))
    await until((workspace / "begun").exists, "the start of the command")
    assert len(alive(ctx)) >= 3
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert alive(ctx) == ()


async def test_output_that_is_no_utf8_is_shown(ctx: ToolContext):
    """K-SHELL-03."""
    assert await shell(ctx, r"printf 'ok\xff\xf0 end\n'; printf 'a\0b'") == (
        "ok\ufffd\ufffd end\na\u2400b\n[exit code 0]"
    )
    noise = await shell(ctx, "head -c 200 /dev/urandom")
    noise.encode()
    assert "\0" not in noise
    long = await shell(ctx, "head -c 65535 /dev/zero | tr '\\0' a; printf '\\xc3\\xa9'")
    assert long.endswith("aé\n[exit code 0]")
    assert "\ufffd" not in long


async def test_long_output_keeps_its_beginning_and_more_of_its_end(ctx: ToolContext):
    """BG-08, K-TEMPORAL-01."""
    text = await shell(ctx, "seq 1 300000")
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("\n299999\n300000\n[exit code 0]")
    assert "bytes left out here" in text
    assert len(text.encode()) < MAX_OUTPUT_BYTES + 200
    assert text.index("bytes left out here") < len(text) / 3
    assert ctx.metadata["output_bytes"] == 1_988_895


async def test_keys_are_not_in_the_environment_of_a_command(
    ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SOME_API_KEY", "sesame")
    monkeypatch.setenv("ZIDANE_STORE", "sesame")
    monkeypatch.setenv("PLAIN", "seen")
    assert await shell(ctx, "env | grep -c sesame; echo $PLAIN") == "0\nseen\n[exit code 0]"
    names = ["A_API_KEY", "a_token", "B_SECRET", "ZIDANE_PAYLOAD_KEY", "TOKENS", "PATH"]
    kept = command_environment(dict.fromkeys(names, "x"), folder="/")
    assert [name for name in names if name in kept] == ["TOKENS", "PATH"]


@pytest.mark.parametrize("command", ["echo \0", "echo " + "x" * 200_000])
async def test_a_command_that_cannot_start_is_an_error_result(ctx: ToolContext, command: str):
    with pytest.raises(ToolError, match="cannot be started"):
        await shell(ctx, command)


async def test_a_call_takes_no_descriptor_and_leaves_no_child(ctx: ToolContext):
    def held() -> tuple[int, list[str]]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return len(list(Path("/proc/self/fd").iterdir())), children

    await shell(ctx, "true")
    before = held()
    for command in ("true", "sleep 90 & true", "exit 1"):
        await shell(ctx, command)
    assert held() == before


async def test_leftovers_are_found_by_call_and_run(workspace: Path):
    """K-SHELL-02: for the attempt after the one whose worker was killed."""
    mine, other = (context_in(workspace, call) for call in ("call_1", "call_10"))
    started = [
        start(["sleep", "300"], mark=CallMark(ctx.call_id, ctx.run_id)) for ctx in (mine, other)
    ]
    try:
        assert await kill_leftovers(mine.call_id, run_id="another-run") == 0
        assert await kill_leftovers(mine.call_id, run_id=mine.run_id) == 1
        assert started[0].wait(5) == -signal.SIGKILL
        assert started[1].poll() is None
        assert await kill_leftovers(mine.call_id, run_id=mine.run_id) == 0
    finally:
        for process in started:
            process.kill()
            process.wait()


WORKER = """
import asyncio, sys
from pathlib import Path
from activities.toolbox import shell
from tests.toolbox.conftest import context_in
command = "setsid sleep 300 & (trap '' TERM; sleep 300) & touch begun; sleep 300"
asyncio.run(shell(context_in(Path(sys.argv[1])), command))
"""


@pytest.mark.timeout(60)
async def test_a_killed_worker_takes_its_commands_along(ctx: ToolContext, workspace: Path):
    """K-TEMPORAL-14, DUR-02: SIGKILL of the worker itself."""
    worker = start([sys.executable, "-c", WORKER, str(workspace)], mark=CallMark("of-the-worker"))
    try:
        await until((workspace / "begun").exists, "the start of the command")
        assert len(alive(ctx)) >= 3
    finally:
        worker.kill()
        worker.wait()
    await until(lambda: not alive(ctx), "the end of the command's processes")


@pytest.mark.timeout(30)
async def test_many_calls_at_once_do_not_get_in_each_others_way(workspace: Path):
    contexts = [context_in(workspace, f"call_{number}") for number in range(8)]
    results = await asyncio.gather(
        *(shell(ctx, f"sleep 60 & echo {number}") for number, ctx in enumerate(contexts))
    )
    assert results == [f"{number}\n{KILLED}\n[exit code 0]" for number in range(8)]
