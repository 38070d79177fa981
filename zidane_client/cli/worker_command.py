"""`zidane worker` and `zidane dev`."""

from collections.abc import Sequence

from temporalio.client import Client

from activities.home import store_url, zidane_home
from worker import connect, metrics_runtime, run_worker, task_queue
from zidane_client.cli.agents import load_agents
from zidane_client.cli.exits import Exit
from zidane_client.cli.render import hint, make_console
from zidane_client.connection import configured_address
from zidane_client.embedded import embedded_server
from zidane_core.agent import Agent


async def work(places: Sequence[str], *, metrics: str | None) -> int:
    """Run a worker for the configured or embedded server until SIGINT or SIGTERM."""
    agents = load_agents(places)
    runtime = metrics_runtime(metrics) if metrics is not None else None
    if configured_address() is not None:
        temporal = await connect(runtime=runtime)
        await _work(temporal, agents)
        return Exit.COMPLETED
    async with embedded_server(zidane_home()) as embedded:
        if runtime is None:
            temporal = await Client.connect(embedded.address)
        else:
            temporal = await Client.connect(embedded.address, runtime=runtime)
        await _work(temporal, agents)
    return Exit.COMPLETED


async def _work(temporal: Client, agents: Sequence[Agent]) -> None:
    address = temporal.service_client.config.target_host
    names = ", ".join(agent.name for agent in agents)
    hint(f"Worker for {names} on task queue {task_queue()!r} of {address}. Ctrl-C drains it.")
    await run_worker(agents, client=temporal)


async def develop(places: Sequence[str]) -> int:
    """Run the embedded server with its UI, and a worker, until Ctrl-C."""
    agents = load_agents(places)
    console = make_console()
    async with embedded_server(zidane_home(), ui=True) as embedded:
        for name, value in (
            ("Temporal", embedded.address),
            ("UI", embedded.ui_url),
            ("Store", store_url()),
            ("Agents", ", ".join(agent.name for agent in agents)),
        ):
            console.print(f"[bold]{name:<10}[/bold]", end="")
            console.print(value, markup=False, soft_wrap=True)
        if configured_address() is not None:
            hint("TEMPORAL_ADDRESS is set: other commands use that server, not this one.")
        console.print("[dim]Ctrl-C ends it; runs go on when it starts again.[/dim]")
        console.file.flush()
        await run_worker(agents, client=await Client.connect(embedded.address))
    return Exit.COMPLETED
