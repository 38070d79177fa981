"""Kill the only worker with SIGKILL and start another: how long until the run goes on?

Three kills: while the model streams, while a tool with effects runs, and while the run is between
activities (paused, then resumed). What really ran is in a journal that the model and the tool
write; nothing that had finished may be in it twice. The model is a provider double without
latency (`subject.py`). A floor has nothing to compare here: the budgets are seconds.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from activities.store import open_store
from benchmarks._harness import Bench, bench, run, say, tell, until_phase, until_quiet
from benchmarks.subject import model_of

Kind = Literal["model", "tool", "between"]
TURNS = 6
KILLED_AT = 3
TOOL_BYTES = 1024
LIMIT_S = 90.0


@dataclass
class Crash:
    """What one kill led to."""

    recovery_s: float
    """From the new worker's first poll to the end of its first model call."""
    repeated_model_calls: int
    repeated_tool_calls: int
    lost_turns: int


async def crash(b: Bench, kind: Kind, name: str) -> Crash:
    """Run, kill the worker in the middle, start another, and see what became of the run."""
    folder = b.folder / name
    folder.mkdir()
    lines = _reader(folder)
    held = "tool" if kind == "tool" else "model"
    (folder / "hold").write_text(f"{held} {KILLED_AT}")
    worker = await b.start_worker("zidane", "--journal", folder)
    handle = await b.start_run(name, model_of(TURNS, TOOL_BYTES))
    await _until(lambda: f"{held} {KILLED_AT} begin" in lines(), "the work to kill")
    if kind == "between":
        await handle.signal("pause")
        (folder / "hold").unlink()
        await until_phase(handle, "paused")
        # A kill within a workflow task is another case: the server waits ten seconds for it.
        await until_quiet(handle)
    else:
        # Past the first heartbeat, as in a stream that has gone on for a while.
        await asyncio.sleep(1.5)
    await worker.kill()
    (folder / "hold").unlink(missing_ok=True)
    before = len(lines())
    await b.start_worker("zidane", "--journal", folder)
    began = perf_counter()
    if kind == "between":
        await handle.signal("resume")
    await _until(
        lambda: any(_is_model_end(line) for line in lines()[before:]), "the next model call"
    )
    recovery_s = perf_counter() - began
    result = await handle.result()
    await b.workers[-1].stop()
    return Crash(recovery_s, *_repeats(lines()), await _lost(b, result))


def _reader(folder: Path) -> Callable[[], list[str]]:
    journal = folder / "journal"
    return lambda: journal.read_text().splitlines() if journal.exists() else []


def _is_model_end(line: str) -> bool:
    return line.startswith("model") and line.endswith("end")


def _repeats(lines: list[str]) -> tuple[int, int]:
    """Count model calls that ended, and tool calls that began, more than once."""
    ended = Counter(line for line in lines if _is_model_end(line))
    begun = Counter(line for line in lines if line.startswith("tool") and line.endswith("begin"))
    return sum(ended.values()) - len(ended), sum(begun.values()) - len(begun)


async def _lost(b: Bench, result: dict[str, Any]) -> int:
    """Count the turns that are missing on the session's path."""
    store = await open_store(b.store)
    path = await store.path(result["session_id"], result["head"])
    await store.close()
    # The prompt, a model's turn and a turn of results for each, and the last answer.
    return 2 * TURNS + 2 - len(path)


async def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = perf_counter() + LIMIT_S
    while not holds():
        if perf_counter() > deadline:
            raise RuntimeError(f"Waited {LIMIT_S:g} s for {what}.")
        await asyncio.sleep(0.01)


async def measure(repeat: int) -> dict[str, Any]:
    """Crash several times in each way and return the worst figures."""
    kinds: tuple[Kind, ...] = ("model", "tool", "between")
    found: dict[Kind, list[Crash]] = {kind: [] for kind in kinds}
    async with bench() as b:
        for number in range(repeat):
            for kind in kinds:
                made = await crash(b, kind, f"{kind}-{number}")
                found[kind].append(made)
                say(f"killed in {kind}: {made}")
    everything = [made for kind in kinds for made in found[kind]]
    worst = {kind: max(made.recovery_s for made in found[kind]) for kind in kinds}
    models = sum(made.repeated_model_calls for made in everything)
    tools = sum(made.repeated_tool_calls for made in everything)
    lost = sum(made.lost_turns for made in everything)
    print(f"{repeat} kills of each kind, the worst of each; model: a provider double")
    tell(
        "killed in mid-stream, seconds to recover",
        worst["model"],
        "<= 12",
        is_met=worst["model"] <= 12,
    )
    tell("killed in mid-tool", worst["tool"], "<= 12", is_met=worst["tool"] <= 12)
    tell("killed between activities", worst["between"], "<= 2", is_met=worst["between"] <= 2)
    tell("finished model calls made again", models, "0", is_met=models == 0)
    tell("tool calls made again", tools, "0", is_met=tools == 0)
    tell("turns lost", lost, "0", is_met=lost == 0)
    return {
        "mid_stream_recovery_s": round(worst["model"], 2),
        "between_activities_recovery_s": round(worst["between"], 2),
        "repeated_model_calls": models,
        "repeated_tool_calls": tools,
        "lost_turns": lost,
    }


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="kills of each kind")
    options = parser.parse_args()
    if options.repeat < 1:
        parser.error("--repeat is at least 1")
    run(measure(options.repeat))


if __name__ == "__main__":
    main()
