"""The shell tool."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from activities.toolbox.capping import HeadAndTail
from activities.toolbox.process_tree import CallMark
from activities.toolbox.processes import Command, find_shell
from activities.toolbox.workspace import Workspace
from zidane_core.authoring import ToolContext, ToolError, tool

MAX_OUTPUT_BYTES = 32_768
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 3_600_000
_HEAD_BYTES = 8_192
_SPARE_MS = 30_000
"""For ending a command that timed out, before the call as a whole does."""

_SECRET_SUFFIXES = ("_API_KEY", "_TOKEN", "_SECRET")
_SECRET_NAMES = frozenset({"ZIDANE_PAYLOAD_KEY", "ZIDANE_STORE", "TEMPORAL_TLS_CLIENT_KEY_DATA"})
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


def command_environment(environment: Mapping[str, str], *, folder: str) -> dict[str, str]:
    """Return what a command gets of the worker's environment.

    Names that end in _API_KEY, _TOKEN or _SECRET, and Zidane's and Temporal's own secrets, are
    left out. A command runs as the worker's user all the same: this keeps keys from being
    printed by accident, it does not lock them away.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _SECRET_NAMES and not name.upper().endswith(_SECRET_SUFFIXES)
    }
    return {**kept, **_QUIET, "PWD": folder}


@tool(
    timeout_ms=MAX_TIMEOUT_MS + _SPARE_MS,
    description=(
        "Run a command with bash in the workspace. There is no terminal and no input. Returns "
        "stdout and stderr together and the exit code; of long output the beginning and the end. "
        "Processes still running when the command ends are killed, so background jobs do not "
        "outlive it."
    ),
)
async def shell(
    ctx: ToolContext,
    command: Annotated[str, Field(description="The command line.")],
    timeout_ms: Annotated[
        int,
        Field(ge=1, le=MAX_TIMEOUT_MS, description="The command is killed after this time."),
    ] = DEFAULT_TIMEOUT_MS,
) -> str:
    """Run a command in the workspace and return when it has exited.

    Args:
        ctx: The call.
        command: Given to bash, or to sh where there is no bash.
        timeout_ms: 120,000 by default, at most 3,600,000.

    Returns:
        The output, at most 32,768 bytes and a note of what was left out, and a last line
        `[exit code N]`; a command that fails is a normal result.

    Raises:
        ToolError: The command cannot be started, or timed out; then with its output so far.

    Implements: BG-08, K-SHELL-01, K-SHELL-02, K-SHELL-03, K-TEMPORAL-01, K-TEMPORAL-14.
    """
    Workspace.at(ctx.workspace)
    output = HeadAndTail(max_bytes=MAX_OUTPUT_BYTES, head_bytes=_HEAD_BYTES)
    running = _start(ctx, command, output)
    is_late = False
    try:
        try:
            async with asyncio.timeout(min(timeout_ms, MAX_TIMEOUT_MS) / 1_000):
                await running.exited()
        except TimeoutError:
            is_late = True
            await running.terminate()
        left_over = await running.kill()
    except BaseException:
        running.kill_now()
        await running.kill()
        raise
    finally:
        await running.close()
    ctx.metadata |= {"exit_code": running.exit_code, "output_bytes": output.total_bytes}
    text = output.text()
    lines = [text.removesuffix("\n")] if text else []
    if is_late:
        raise ToolError("\n".join([*lines, f"[timed out after {timeout_ms} ms and was killed]"]))
    if left_over:
        # No number: how many there were by then is a matter of luck.
        lines.append("[background processes were killed when the command ended]")
    return "\n".join([*lines, f"[{_exit_text(running.exit_code)}]"])


def _start(ctx: ToolContext, command: str, output: HeadAndTail) -> Command:
    try:
        return Command.start(
            [find_shell(), "-c", command],
            folder=ctx.workspace,
            environment=command_environment(os.environ, folder=ctx.workspace),
            mark=CallMark(ctx.call_id, ctx.run_id),
            on_output=output.feed,
        )
    except (OSError, ValueError) as error:
        raise ToolError(
            f"The command cannot be started: {error}. A very long one belongs in a script file "
            "(write_file), which the command then runs."
        ) from error


def _exit_text(code: int | None) -> str:
    if code is None:
        return "could not be killed and still runs"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
