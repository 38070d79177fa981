"""`zidane show` and `zidane replay`."""

import json
from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from zidane_client.cli.exits import Exit, print_json
from zidane_client.cli.render import make_console
from zidane_client.cli.running import client
from zidane_client.cli.wording import (
    counted,
    duration,
    ended_because,
    money,
    one_line,
    plain,
    short,
    size,
)
from zidane_client.cli.wording import stats_line as stats_in_a_line
from zidane_client.replaying import ReplayReport
from zidane_client.stored import stats_so_far
from zidane_core.content import (
    ContentBlock,
    ProviderReasoningBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.session import RunRecord, Turn

_RESULT_LINES = 8
_SAID_BY = {"user": ("you", "cyan"), "assistant": ("model", "green")}


async def show(id: str, *, is_full: bool, as_json: bool) -> int:
    """Print a session's transcript up to a run's end; needs no worker."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        record = await handle.record()
        turns = await handle.transcript()
        if record is not None and record.status == "running":
            stats, _turns = await stats_so_far(await opened.store(), record)
            record = record.model_copy(update={"stats": stats})
    if as_json:
        known = record or RunRecord(
            run_id=handle.run_id, session_id=handle.session_id, agent="", phase="starting"
        )
        listed = [turn.model_dump(mode="json") for turn in turns]
        print_json({**known.model_dump(mode="json"), "turns": listed})
        return Exit.COMPLETED
    console = make_console()
    if record is None:
        console.print("No worker has taken this run yet, so there is nothing to show.")
        return Exit.COMPLETED
    _header(console, record)
    names = {call.id: call.name for turn in turns for call in turn.tool_calls}
    for turn in turns:
        _turn(console, turn, names, is_full=is_full)
    _footer(console, record)
    return Exit.COMPLETED


def _header(console: Console, record: RunRecord) -> None:
    line = Text(record.agent, style="bold")
    for part in (record.model, f"session {record.session_id}", f"run {short(record.run_id)}"):
        if part:
            line.append(f" · {plain(part)}", style="dim")
    console.print(line, soft_wrap=True)


def _footer(console: Console, record: RunRecord) -> None:
    status = record.phase if record.status == "running" else record.status
    console.print()
    line = Text(status, style="bold").append(f" · {stats_in_a_line(record.stats)}", style="dim")
    console.print(line, soft_wrap=True)
    if record.error is not None:
        error = f"{record.error.get('type')}: {record.error.get('message')}"
        console.print(Text(plain(error), style="red"), soft_wrap=True)
    if record.reason:
        console.print(Text(plain(record.reason), style="yellow"), soft_wrap=True)


def _turn(console: Console, turn: Turn, names: Mapping[str, str], *, is_full: bool) -> None:
    results = turn.tool_results
    if not results or len(results) != len(turn.content):
        name, style = _SAID_BY.get(turn.role, (turn.role, ""))
        if turn.injected is not None:
            name = f"zidane ({turn.injected})"
        head = Text(name, style="dim" if turn.aborted else f"bold {style}")
        if turn.aborted:
            head.append(" · aborted, not sent to the model again")
        elif turn.usage is not None:
            usage = turn.usage
            head.append(f" · {usage.input:,} in, {usage.output:,} out", style="not bold dim")
            if usage.cost is not None:
                head.append(f" · {money(usage.cost)}", style="not bold dim")
            if usage.estimated:
                head.append(" · estimated", style="not bold dim")
            if usage.finish_reason in ("length", "content-filter"):
                head.append(f" · {ended_because(usage.finish_reason)}", style="not bold yellow")
        console.print()
        console.print(head)
    for block in turn.content:
        _block(console, block, names, is_dim=turn.aborted, is_full=is_full)


def _block(
    console: Console,
    block: ContentBlock,
    names: Mapping[str, str],
    *,
    is_dim: bool,
    is_full: bool,
) -> None:
    match block:
        case TextBlock():
            console.print(Text(plain(block.text), style="dim" if is_dim else ""), soft_wrap=True)
        case ThinkingBlock():
            console.print(Text(plain(block.text), style="dim italic"), soft_wrap=True)
        case ProviderReasoningBlock() if block.reasoning_text:
            console.print(Text(plain(block.reasoning_text), style="dim italic"), soft_wrap=True)
        case ServerToolUseBlock():
            used = str(block.raw.get("name") or block.raw.get("type"))
            console.print(Text(f"→ {one_line(used, 60)} (run by {block.producer})", style="dim"))
        case ToolCallBlock():
            room = max(20, console.width - len(block.name) - 4)
            call = Text("→ ", style="dim").append(block.name, style="not dim bold")
            call.append(f" {one_line(json.dumps(block.input, ensure_ascii=False), room)}")
            console.print(call, soft_wrap=True)
        case ToolResultBlock():
            _result(console, block, names, is_full=is_full)
        case _:
            console.print(Text(f"[{block.type}]", style="dim"))


def _result(
    console: Console, block: ToolResultBlock, names: Mapping[str, str], *, is_full: bool
) -> None:
    mark, style = ("✗", "red") if block.is_error else ("✓", "green")
    head = Text(mark, style=style).append(
        f" {names.get(block.call_id, block.call_id)}", style="dim"
    )
    if block.duration_ms is not None:
        head.append(f" {duration(block.duration_ms)}", style="dim")
    console.print(head)
    lines = plain(tool_result_to_text(block.output)).splitlines()
    shown = lines if is_full else lines[:_RESULT_LINES]
    for line in shown:
        cut = line if is_full else _cut(line, console.width - 2)
        console.print(Text(f"  {cut}", style="dim"), soft_wrap=True)
    if len(lines) > len(shown):
        more = counted(len(lines) - len(shown), "line")
        console.print(Text(f"  … {more} more (--full)", style="dim"))


def _cut(line: str, width: int) -> str:
    """Return a line cut to a width, its indentation kept."""
    return line if len(line) <= width else line[: width - 1] + "…"


async def replay(id: str, *, as_json: bool) -> int:
    """Replay a run's history against this installation's code."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        report = await handle.replay()
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _report(make_console(), report)
    return Exit.COMPLETED if report.ok else Exit.FAILED


def _report(console: Console, report: ReplayReport) -> None:
    for execution in report.executions:
        mark, style = ("✓", "green") if execution.ok else ("✗", "red")
        line = Text(mark, style=style).append(f" execution {short(execution.run_id)}")
        facts = f" · {counted(execution.events, 'event')} · {size(execution.bytes)}"
        console.print(line.append(facts, style="dim"), soft_wrap=True)
        if execution.error is not None:
            console.print(Text(f"  {plain(execution.error)}", style="red"), soft_wrap=True)
    if report.ok:
        console.print("The history replays with today's code.")
    else:
        console.print(
            "Today's code decides otherwise than this history. Runs in flight would stop until a "
            "fixed deploy: keep the old way behind workflow.patched.",
            soft_wrap=True,
        )
