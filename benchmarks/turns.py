"""The cost of a turn: one model call and one tool call, beside the floor.

Both runs work on one server, a slice of a few turns each in turn (`turnstile.py`), the model
answers at once (a provider double, `subject.py`), each side has its own worker process.
"""

import argparse
import asyncio
from typing import Any

from benchmarks._harness import History, bench, cpu_ms, history_of, run, say, tell
from benchmarks.clock import SLICE_TURNS, Clock
from benchmarks.subject import model_of
from benchmarks.turnstile import Turnstile


async def measure(turns: int, tool_bytes: int, *, read_only: bool) -> dict[str, Any]:
    """Run both sides and return the figures."""
    async with bench() as b:
        turnstile = Turnstile(b.folder / "t.sock", turns=turns, slice_turns=SLICE_TURNS)
        await turnstile.open("zidane", "floor")
        gate = ("--turnstile", turnstile.path, "--turns", turns, "--slice-turns", SLICE_TURNS)
        ours, floor = await asyncio.gather(
            b.start_worker("zidane", *gate), b.start_worker("floor", *gate)
        )
        our_run = await b.start_run(
            "turns", model_of(turns, tool_bytes, "look" if read_only else "work")
        )
        floor_run = await b.start_floor("turns", turns, local=read_only)
        clock = Clock(turnstile.slices)

        server_cpu = {"zidane": 0.0, "floor": 0.0}
        server_last = cpu_ms(b.server_pid)

        def on_slice(number: int, side: str, ms: float) -> None:
            nonlocal server_last
            clock.add(side, ms)
            ours.rss()
            floor.rss()
            # Only one side works during a slice, so the server's time is that side's.
            now = cpu_ms(b.server_pid)
            server_cpu[side] += now - server_last
            server_last = now
            say(f"slice {number + 1}/{len(turnstile.slices)} {side:<7} {ms:8.1f} ms per turn")

        cpu_before = ours.cpu_ms(), floor.cpu_ms()
        await turnstile.time_slices(on_slice=on_slice)
        result = await our_run.result()
        await floor_run.result()
        if result["status"] != "completed" or result["stats"]["turns"] != turns + 1:
            raise RuntimeError(f"The run did not finish as it should: {result}")
        ours.rss()
        cpu = (ours.cpu_ms() - cpu_before[0]) / turns, (floor.cpu_ms() - cpu_before[1]) / turns
        found = await history_of(b.client, our_run, "stream_turn")
        bare = await history_of(b.client, floor_run, "floor_model")
    print(
        f"{turns} turns, tool results of {tool_bytes} bytes, model: a provider double without "
        f"latency, floor: {'local' if read_only else 'regular'} tool activity"
    )
    _tell_times(clock, limit=1.2 if read_only else 1.15)
    print(
        f"  processor time, ms per turn: worker {cpu[0]:.1f}, floor's {cpu[1]:.1f}; server "
        f"{server_cpu['zidane'] / turns:.1f}, for the floor {server_cpu['floor'] / turns:.1f}"
    )
    _tell_history(found, bare, limit=8 if read_only else 12)
    peak = ours.peak_bytes / 1e6
    tell("worker memory at its peak, MB", peak, "< 110", is_met=peak < 110)
    print(f"  floor {floor.peak_bytes / 1e6:.1f} MB; heavy modules loaded: {ours.heavy or 'none'}")
    first, last = clock.edges()
    return {
        "turns": turns,
        "tool_bytes": tool_bytes,
        "ms_per_turn": round(clock.per_turn("zidane"), 2),
        "floor_ms_per_turn": round(clock.per_turn("floor"), 2),
        "ratio": round(clock.ratio(), 3),
        "first20_ms": round(clock.per_turn("zidane", first), 2),
        "last20_ms": round(clock.per_turn("zidane", last), 2),
        "events_per_turn": round(found.turn_events, 2),
        "history_bytes_per_turn": round(found.turn_bytes),
    }


def _tell_times(clock: Clock, *, limit: float) -> None:
    ratio = clock.ratio()
    tell("ms per turn / floor's", ratio, f"<= {limit}", is_met=ratio <= limit)
    print(f"  median of the slices' ratios: {clock.median_ratio():.3f}")
    growth = clock.growth()
    tell("last 20 turns / first 20, each / floor's", growth, "<= 1.2", is_met=growth <= 1.2)


def _tell_history(found: History, bare: History, *, limit: int) -> None:
    events, size = found.turn_events, found.turn_bytes
    tell("events per turn", events, f"<= {limit}", is_met=events <= limit)
    tell("history bytes per turn", size, "<= 3072", is_met=size <= 3072)
    print(
        f"  whole run: {found.events} events, {found.bytes} bytes in {found.histories} histories; "
        f"floor {bare.events} events, {bare.bytes} bytes in {bare.histories}"
    )


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="turns with a tool call")
    parser.add_argument("--tool-bytes", type=int, default=1024, help="size of each tool result")
    parser.add_argument("--read-only-tool", action="store_true", help="the tool only reads")
    options = parser.parse_args()
    if options.turns < 1 or options.tool_bytes < 0:
        parser.error("--turns is at least 1, --tool-bytes at least 0")
    run(measure(options.turns, options.tool_bytes, read_only=options.read_only_tool))


if __name__ == "__main__":
    main()
