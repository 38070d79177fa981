"""Each benchmark runs at a tiny size and says what the budgets of design.md section 8 ask for.

Nothing here looks at a time: what the figures are is for whoever runs the benchmarks.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.server


async def outcome(*arguments: str) -> tuple[int, str, str]:
    """Run a benchmark and return its exit code, standard output and standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def figures(*arguments: str) -> dict[str, Any]:
    code, out, err = await outcome(*arguments)
    assert code == 0, err
    assert "budget" in out
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("flags", [(), ("--read-only-tool",)])
async def test_turns_tells_the_cost_of_a_turn_beside_the_floor(flags: tuple[str, ...]) -> None:
    """DUR-07: what a turn adds to history is small."""
    found = await figures("benchmarks.turns", "--turns", "10", "--tool-bytes", "2000", *flags)

    assert list(found) == [
        "turns",
        "tool_bytes",
        "ms_per_turn",
        "floor_ms_per_turn",
        "ratio",
        "first20_ms",
        "last20_ms",
        "events_per_turn",
        "history_bytes_per_turn",
    ]
    assert (found["turns"], found["tool_bytes"]) == (10, 2000)
    assert found["events_per_turn"] <= (8 if flags else 12)
    assert found["history_bytes_per_turn"] <= 3072


async def test_history_does_not_grow_with_the_size_of_tool_results() -> None:
    """DUR-07."""
    small = await figures("benchmarks.turns", "--turns", "6", "--tool-bytes", "10")
    large = await figures("benchmarks.turns", "--turns", "6", "--tool-bytes", "100000")

    difference = large["history_bytes_per_turn"] - small["history_bytes_per_turn"]
    # The sizes themselves have more digits, in arguments and receipts.
    assert abs(difference) < 100


async def test_a_long_conversation_finishes_and_tells_its_history() -> None:
    """DUR-06, DUR-07."""
    found = await figures(
        "benchmarks.long_conversation", "--tokens", "20000", "--calls", "6", "--tool-bytes", "500"
    )

    assert list(found) == [
        "finished",
        "calls",
        "history_bytes",
        "continue_as_new",
        "first20_ms",
        "last20_ms",
        "worker_rss_mb",
    ]
    assert found["finished"] is True
    assert found["calls"] == 7
    assert found["history_bytes"] < 40_000


async def test_concurrency_tells_throughput_beside_the_floor_and_idle_memory() -> None:
    found = await figures("benchmarks.concurrency", "--runs", "3", "--turns", "2")

    assert list(found) == [
        "runs",
        "turns_per_s",
        "floor_turns_per_s",
        "ratio",
        "rss_mb_per_idle_run",
    ]
    assert found["runs"] == 3


@pytest.mark.crash
async def test_crash_finds_nothing_repeated_and_nothing_lost() -> None:
    """DUR-02."""
    found = await figures("benchmarks.crash", "--repeat", "1")

    assert list(found) == [
        "mid_stream_recovery_s",
        "between_activities_recovery_s",
        "repeated_model_calls",
        "repeated_tool_calls",
        "lost_turns",
    ]
    assert found["repeated_model_calls"] == 0
    assert found["repeated_tool_calls"] == 0
    assert found["lost_turns"] == 0


async def test_a_bad_argument_is_said_before_anything_starts() -> None:
    code, out, err = await outcome("benchmarks.turns", "--turns", "0")

    assert code == 2
    assert out == ""
    assert "--turns is at least 1" in err
