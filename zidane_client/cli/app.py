"""The `zidane` command: its subcommands and their options. What they do is in files beside it.

Those are imported when their command runs: they need Temporal's SDK, which takes a second to
import, and `--help` must not wait for it.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="zidane",
    help=(
        "A durable agent runtime: each agent run is a Temporal workflow.\n\n"
        "Without TEMPORAL_ADDRESS (or a Temporal profile) commands share an embedded server under "
        "ZIDANE_HOME, .zidane by default.\n\n"
        "Exit codes: 0 completed, 1 the run failed, 2 usage, 3 aborted, 4 paused or parked, "
        "5 server or store out of reach."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Mode(StrEnum):
    """What a pause does at the turn boundary."""

    HOLD = "hold"
    RETURN = "return"


class Thinking(StrEnum):
    """How much a model reasons."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"
    ADAPTIVE = "adaptive"


Id = Annotated[
    str, typer.Argument(metavar="ID", help="Session id, run id, or a unique beginning of one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Agents = Annotated[
    list[str] | None,
    typer.Option("--agents", metavar="MODULE:OBJECT", help="Agents for the worker; repeatable."),
]


@app.command()
def run(
    agent: Annotated[str, typer.Argument(help="Name of an agent; 'basic' is always there.")],
    prompt: Annotated[
        str | None,
        typer.Argument(help="What it shall do; - reads it from stdin. Optional with --session."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="PROVIDER:MODEL", help="Repeat it for fallbacks."),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Go on with this session, or name a new.")
    ] = None,
    system: Annotated[str | None, typer.Option("--system", help="Another system prompt.")] = None,
    thinking: Annotated[
        Thinking | None, typer.Option("--thinking", help="How much to reason.")
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", "-w", help="Folder of the tools; the working directory."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="behavior.KEY=VALUE",
            help="A behavior setting, as JSON: behavior.max_turns=5, "
            "behavior.retry.max_attempts=1; repeatable.",
        ),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="A label for lists.")] = None,
    fail: Annotated[
        bool, typer.Option("--fail", help="End on a provider failure instead of parking.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Only start it and print its ids.")
    ] = False,
    agents: Agents = None,
    as_json: AsJson = False,
) -> None:
    """Start a run, watch it live and print its result. Ctrl-C detaches."""
    from zidane_client.cli import start_command
    from zidane_client.cli.running import run_command

    options = start_command.RunOptions(
        agent=agent,
        prompt=prompt,
        models=model or (),
        session=session,
        system=system,
        thinking=None if thinking is None else thinking.value,
        workspace=workspace,
        settings=settings or (),
        agents=agents or (),
        label=label,
        fail=fail,
        is_detached=detach,
        as_json=as_json,
    )
    run_command(lambda: start_command.run(options), as_json=as_json)


@app.command()
def watch(id: Id, agents: Agents = None, as_json: AsJson = False) -> None:
    """Follow a run live, from its beginning."""
    from zidane_client.cli import start_command
    from zidane_client.cli.running import run_command

    run_command(
        lambda: start_command.watch(id, agents=agents or (), as_json=as_json), as_json=as_json
    )


@app.command()
def ps(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most.")] = 20,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Subagents' runs too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    from zidane_client.cli import list_command
    from zidane_client.cli.running import run_command

    run_command(
        lambda: list_command.list_runs(limit=limit, show_all=show_all, as_json=as_json),
        as_json=as_json,
    )


@app.command()
def show(
    id: Id,
    full: Annotated[bool, typer.Option("--full", help="Whole tool results.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a transcript, with costs and with what aborted attempts had said."""
    from zidane_client.cli import show_command
    from zidane_client.cli.running import run_command

    run_command(lambda: show_command.show(id, is_full=full, as_json=as_json), as_json=as_json)


@app.command()
def steer(id: Id, text: Annotated[str, typer.Argument(help="The message.")]) -> None:
    """Send a message to a run that works; calls not yet started are skipped."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.message("steer", id, text))


@app.command("follow-up")
def follow_up(id: Id, text: Annotated[str, typer.Argument(help="The message.")]) -> None:
    """Send a message that a run takes when it would otherwise end."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.message("follow_up", id, text))


@app.command()
def pause(
    id: Id,
    mode: Annotated[
        Mode, typer.Option("--mode", help="hold waits for resume, return ends the run resumable.")
    ] = Mode.HOLD,
) -> None:
    """Pause a run at its next turn boundary."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.pause(id, mode=mode.value))


@app.command()
def resume(id: Id) -> None:
    """Let a paused, parked or suspended run go on."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.resume(id))


@app.command()
def abort(
    id: Id, reason: Annotated[str | None, typer.Option("--reason", help="Kept as event.")] = None
) -> None:
    """Cancel what a run does and end it; its turns are kept."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.abort(id, reason=reason))


@app.command()
def suspend(id: Id) -> None:
    """Cancel what a run does and end it so that resume goes on."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.suspend(id))


@app.command()
def answer(
    id: Id,
    call: Annotated[str, typer.Argument(metavar="CALL", help="Call id of the question.")],
    text: Annotated[str, typer.Argument(metavar="ANSWER", help="The answer, as text.")],
    json_value: Annotated[bool, typer.Option("--json", help="ANSWER is JSON, not text.")] = False,
) -> None:
    """Answer an open question."""
    from zidane_client.cli import control_commands
    from zidane_client.cli.running import run_command

    run_command(lambda: control_commands.answer(id, call, text, is_json=json_value))


@app.command()
def replay(id: Id, as_json: AsJson = False) -> None:
    """Replay a run's history against today's code; exits 1 when it differs."""
    from zidane_client.cli import show_command
    from zidane_client.cli.running import run_command

    run_command(lambda: show_command.replay(id, as_json=as_json), as_json=as_json)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check server, store, keys and workers, and say what to do."""
    from zidane_client.cli import doctor_command
    from zidane_client.cli.running import run_command

    run_command(lambda: doctor_command.doctor(as_json=as_json), as_json=as_json)


@app.command()
def models(
    provider: Annotated[
        str | None, typer.Argument(help="Only its models, such as anthropic.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models that are known, with their windows and prices."""
    from zidane_client.cli import models_command
    from zidane_client.cli.running import run_command

    run_command(lambda: models_command.list_known(provider, as_json=as_json), as_json=as_json)


@app.command()
def worker(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE:OBJECT]...", help="Agents, besides 'basic'."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus."),
    ] = None,
) -> None:
    """Run a worker until Ctrl-C or SIGTERM, which drains it."""
    from zidane_client.cli import worker_command
    from zidane_client.cli.running import run_command

    run_command(lambda: worker_command.work(places or (), metrics=metrics), serves=True)


@app.command()
def dev(agents: Agents = None) -> None:
    """Run an embedded server, its UI and a worker until Ctrl-C."""
    from zidane_client.cli import worker_command
    from zidane_client.cli.running import run_command

    run_command(lambda: worker_command.develop(agents or ()), serves=True)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep home and workspace.")] = False,
) -> None:
    """Kill a worker in mid-run and see that nothing is lost or repeated. Offline."""
    from zidane_client.cli import demo as demo_command
    from zidane_client.cli.running import run_command

    run_command(lambda: demo_command.demo(keep=keep))


def main() -> NoReturn:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a character shows a question mark, and no traceback.
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] - a text stream
    app(prog_name="zidane")
    raise SystemExit(0)
