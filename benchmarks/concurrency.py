"""Many runs at once on one worker: throughput beside the floor's, and the memory of idle runs.

Ours and the floor's runs go in rounds, A B B A, each with all runs at once and a part of the
turns. Then as many runs of ours wait for a person, on a fresh worker, for the memory of one. The
model is a provider double without latency (`subject.py`).
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from benchmarks._harness import Bench, Handle, bench, run, say, tell, until_phase
from benchmarks.subject import model_of

ROUNDS = 2
TOOL_BYTES = 1024
AT_ONCE = 20
"""Start requests under way at a time."""
WARM_RUNS = 20
MIB = 1024 * 1024


async def measure(runs: int, turns: int) -> dict[str, Any]:
    """Run both sides and return the figures."""
    seconds = {"zidane": 0.0, "floor": 0.0}
    parts = [turns // ROUNDS + (number < turns % ROUNDS) for number in range(ROUNDS)]
    async with bench() as b:
        await asyncio.gather(b.start_worker("zidane"), b.start_worker("floor"))
        starters: dict[str, Callable[[str, int], Awaitable[Handle]]] = {
            "zidane": lambda name, part: b.start_run(name, model_of(part, TOOL_BYTES)),
            "floor": lambda name, part: b.start_floor(name, part, local=False),
        }
        for side in starters:
            await _all(starters[side], "warm", 1, runs=2)
        for number, part in enumerate(parts):
            if part == 0:
                continue
            for side in ("zidane", "floor") if number % 2 == 0 else ("floor", "zidane"):
                took = await _all(starters[side], f"{number}", part, runs=runs)
                seconds[side] += took
                say(f"round {number + 1}: {runs} {side} runs of {part} turns in {took:.1f} s")
        for worker in b.workers:
            await worker.stop()
        idle_mb = await _idle_mb(b, runs)
    ours, floor = (runs * turns / seconds[side] for side in ("zidane", "floor"))
    print(
        f"{runs} runs of {turns} turns at once, tool results of {TOOL_BYTES} bytes, model: a "
        "provider double without latency"
    )
    print(f"  turns per second: ours {ours:.2f}, floor {floor:.2f}")
    tell("turns per second / floor's", ours / floor, ">= 0.8", is_met=ours / floor >= 0.8)
    tell("memory of an idle run, MiB", idle_mb, "< 1", is_met=idle_mb < 1)
    return {
        "runs": runs,
        "turns_per_s": round(ours, 2),
        "floor_turns_per_s": round(floor, 2),
        "ratio": round(ours / floor, 3),
        "rss_mb_per_idle_run": round(idle_mb, 3),
    }


async def _all(
    start: Callable[[str, int], Awaitable[Handle]], name: str, turns: int, *, runs: int
) -> float:
    """Do all runs at once and return the seconds that they took."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            handle = await start(f"{name}-{number}", turns)
        await handle.result()

    began = perf_counter()
    await asyncio.gather(*(one(number) for number in range(runs)))
    return perf_counter() - began


async def _idle_mb(b: Bench, runs: int) -> float:
    """Return the memory of a run that did a turn and waits for a person, in MiB."""
    worker = await b.start_worker("zidane")
    # The first runs also pay for what a worker sets up once.
    await _wait_for_person(b, "first", WARM_RUNS)
    before = worker.rss()
    await _wait_for_person(b, "idle", runs)
    return (worker.rss() - before) / runs / MIB


async def _wait_for_person(b: Bench, name: str, runs: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            handle = await b.start_run(f"{name}-{number}", model_of(1, TOOL_BYTES, "ask"))
            await until_phase(handle, "waiting")

    await asyncio.gather(*(one(number) for number in range(runs)))
    say(f"{runs} runs wait for a person")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.concurrency", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="runs at once")
    parser.add_argument("--turns", type=int, default=10, help="turns of each, over all rounds")
    options = parser.parse_args()
    if options.runs < 1 or options.turns < 1:
        parser.error("--runs and --turns are at least 1")
    run(measure(options.runs, options.turns))


if __name__ == "__main__":
    main()
