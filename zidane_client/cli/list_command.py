"""`zidane ps`."""

import time

from rich.table import Table
from rich.text import Text

from zidane_client.cli.exits import Exit, print_json
from zidane_client.cli.render import make_console
from zidane_client.cli.running import client
from zidane_client.cli.wording import age, money, one_line, short_ids
from zidane_client.listing import RunSummary

_STYLES = {
    "completed": "green",
    "error": "red",
    "failed": "red",
    "aborted": "yellow",
    "paused": "yellow",
    "parked": "yellow",
    "suspended": "yellow",
    "waiting": "cyan",
}


async def list_runs(*, limit: int, show_all: bool, as_json: bool) -> int:
    """Print the runs, newest first; children only on request."""
    async with client() as (opened, _):
        runs = await opened.list_runs(limit)
    if not show_all:
        runs = tuple(run for run in runs if run.parent_run_id is None)
    if as_json:
        print_json([run.model_dump(mode="json") for run in runs])
        return Exit.COMPLETED
    console = make_console()
    if not runs:
        console.print("No runs yet. Start one: zidane run basic PROMPT --model provider:model")
        return Exit.COMPLETED
    console.print(_table(runs))
    return Exit.COMPLETED


def _table(runs: tuple[RunSummary, ...]) -> Table:
    now = int(time.time() * 1000)
    ids = short_ids(run.session_id for run in runs)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("SESSION", no_wrap=True)
    table.add_column("AGENT", no_wrap=True, max_width=16)
    table.add_column("STATUS", no_wrap=True)
    table.add_column("TURNS", justify="right", no_wrap=True)
    table.add_column("COST", justify="right", no_wrap=True)
    table.add_column("AGE", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for run in runs:
        status = run.phase if run.status == "running" else run.status
        table.add_row(
            ids[run.session_id],
            run.agent or Text("-", style="dim"),
            Text(status, style=_STYLES.get(status, "")),
            str(run.turns),
            money(run.cost),
            age(now - run.started_at),
            Text(one_line(run.reason or run.prompt or "", 200), style="" if run.reason else "dim"),
        )
    return table
