"""What the demo claims, checked against what store, history, log and workspace hold."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from zidane_client.cli.demo_worker import DemoPlace
from zidane_client.cli.demo_workspace import tests_pass
from zidane_client.cli.wording import counted, one_line, size
from zidane_client.handle import RunHandle
from zidane_core.runs import RunResult
from zidane_core.session import Turn


@dataclass(frozen=True)
class Claim:
    """A sentence, and whether it is true."""

    text: str
    is_true: bool
    detail: str = ""


async def check_claims(
    place: DemoPlace, handle: RunHandle, result: RunResult, *, cut_text: str
) -> list[Claim]:
    """Check everything; `cut_text` is what the killed worker had streamed of its turn."""
    turns = await handle.transcript()
    return [
        Claim("the run completed", result.status == "completed"),
        Claim("the project's tests pass now", await tests_pass(place.workspace)),
        _ran_once(place, turns),
        _model_calls(result, turns),
        _kept(turns, cut_text),
        await _replays(handle),
    ]


def _ran_once(place: DemoPlace, turns: Sequence[Turn]) -> Claim:
    lines = place.call_log.read_text(encoding="utf-8").splitlines()
    ran = Counter(tuple(line.split()[:2]) for line in lines)
    asked = {(turn.id, call.id) for turn in turns for call in turn.tool_calls}
    return Claim(
        "every tool call ran once",
        set(ran) == asked and set(ran.values()) == {1},
        f"{counted(len(asked), 'call')}, {counted(len(lines), 'line')} in the log",
    )


def _model_calls(result: RunResult, turns: Sequence[Turn]) -> Claim:
    finished = [turn for turn in turns if turn.role == "assistant" and not turn.aborted]
    cut = [turn for turn in turns if turn.aborted]
    return Claim(
        "no finished model call was made again",
        len(finished) == result.stats.turns and len(cut) == 1,
        f"{len(finished)}, and 1 cut off",
    )


def _kept(turns: Sequence[Turn], cut_text: str) -> Claim:
    kept = next((turn.text for turn in turns if turn.aborted), "")
    return Claim(
        "what it had said is kept, marked aborted",
        bool(kept) and kept.startswith(cut_text),
        f'"{one_line(kept, 28)}"' if kept else "",
    )


async def _replays(handle: RunHandle) -> Claim:
    report = await handle.replay()
    return Claim(
        "the history replays with today's code",
        report.ok,
        f"{counted(report.events, 'event')}, {size(report.bytes)}",
    )
