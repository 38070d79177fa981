"""A long conversation: does history stay small, turns fast and the run alive?

The session holds a conversation of so many tokens before the run begins (4 bytes to a token, the
tool results of an earlier run); the run then makes so many model calls, each with a tool result.
The model is a provider double without latency (`subject.py`). Up to 1,000 calls a floor of as many
turns goes along, slice by slice (`turnstile.py`); longer runs go alone, which takes half the time.
"""

import argparse
import asyncio
from typing import Any

from benchmarks._harness import Bench, bench, history_of, run, say, tell
from benchmarks.clock import SLICE_TURNS, Clock
from benchmarks.subject import model_of
from benchmarks.turnstile import Turnstile

MAX_CALLS_WITH_FLOOR = 1_000
MAX_USUAL_MB = 2.0
"""The largest conversation for which the memory budget of a worker is meant."""
BYTES_PER_TOKEN = 4
SEED_BYTES = 40_000
"""Size of each result of the earlier run."""


async def measure(tokens: int, calls: int, tool_bytes: int) -> dict[str, Any]:
    """Run and return the figures."""
    seeded = tokens * BYTES_PER_TOKEN // SEED_BYTES
    async with bench() as b:
        # The earlier run ends with an answer, so its model calls are one more than its tools'.
        first = seeded + 1 if seeded else 0
        sides = ("zidane", "floor") if calls <= MAX_CALLS_WITH_FLOOR else ("zidane",)
        turnstile = Turnstile(b.folder / "t.sock", turns=calls, slice_turns=SLICE_TURNS)
        await turnstile.open(*sides)
        gate = ("--turnstile", turnstile.path, "--turns", calls, "--slice-turns", SLICE_TURNS)
        worker = await b.start_worker("zidane", *gate, "--first", first)
        if "floor" in sides:
            await b.start_worker("floor", *gate)
            await b.start_floor("long", calls, local=False)
        if seeded:
            await _seed(b, seeded)
        watching = asyncio.create_task(worker.watch_rss())
        handle = await b.start_run("long", model_of(first + calls, tool_bytes))
        clock = Clock(turnstile.slices)

        def on_slice(number: int, side: str, ms: float) -> None:
            clock.add(side, ms)
            say(f"{side} slice {number + 1}/{len(turnstile.slices)} {ms:8.1f} ms per turn")

        await turnstile.time_slices(on_slice=on_slice)
        result = await handle.result()
        worker.rss()
        watching.cancel()
        found = await history_of(b.client, handle, "stream_turn")
    made = result["stats"]["turns"]
    finished = result["status"] == "completed" and made == calls + 1
    megabyte_budget = 1e6 * max(1.0, calls / 100)
    rss = worker.peak_bytes / 1e6
    print(
        f"{tokens} tokens before the run, {made} model calls, tool results of {tool_bytes} bytes, "
        "model: a provider double without latency"
    )
    tell(
        "history, bytes in all",
        found.bytes,
        f"< {megabyte_budget:.0f}",
        is_met=found.bytes < megabyte_budget,
    )
    growth = clock.growth()
    named = "last 20 turns / first 20" + (", each / floor's" if "floor" in sides else "")
    tell(named, growth, "<= 1.2", is_met=growth <= 1.2)
    conversation = (seeded * SEED_BYTES + calls * tool_bytes) / 1e6
    print(f"  the conversation: {conversation:.1f} MB; heavy modules: {worker.heavy or 'none'}")
    if conversation <= MAX_USUAL_MB:
        tell("worker memory at its peak, MB", rss, "< 110", is_met=rss < 110)
    else:
        print(f"  worker memory at its peak: {rss:.1f} MB; it holds the conversation")
    first20, last20 = clock.edges()
    return {
        "finished": finished,
        "calls": made,
        "history_bytes": found.bytes,
        "continue_as_new": found.histories - 1,
        "first20_ms": round(clock.per_turn("zidane", first20), 2),
        "last20_ms": round(clock.per_turn("zidane", last20), 2),
        "worker_rss_mb": round(rss, 1),
    }


async def _seed(b: Bench, results: int) -> None:
    say(f"an earlier run fills the session with {results} results of {SEED_BYTES} bytes")
    handle = await b.start_run("long", model_of(results, SEED_BYTES))
    await handle.result()


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_conversation", description=__doc__
    )
    parser.add_argument("--tokens", type=int, default=209_000, help="before the run begins")
    parser.add_argument("--calls", type=int, default=100, help="model calls with a tool call")
    parser.add_argument("--tool-bytes", type=int, default=5120, help="size of each tool result")
    options = parser.parse_args()
    if options.calls < 1 or min(options.tokens, options.tool_bytes) < 0:
        parser.error("--calls is at least 1, --tokens and --tool-bytes at least 0")
    run(measure(options.tokens, options.calls, options.tool_bytes))


if __name__ == "__main__":
    main()
