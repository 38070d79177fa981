"""A worker in its own process, so that its memory can be measured and it can be killed.

Prints one line of JSON when it polls: which heavy modules it has loaded though no run needs them.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker

HEAVY = ("sqlalchemy", "alembic", "anthropic", "openai", "rich", "typer", "asyncpg")


async def _work(options: argparse.Namespace) -> None:
    gate = None
    if options.turnstile is not None:
        from benchmarks.turnstile import gate_at

        gate = await gate_at(
            options.turnstile,
            options.side,
            first=options.first,
            turns=options.turns,
            slice_turns=options.slice_turns,
        )
    client = await Client.connect(options.address)
    # Each side imports its own modules only, for its memory is measured.
    if options.side == "floor":
        from benchmarks.floor import Floor, floor_activities

        worker = Worker(
            client,
            task_queue=options.queue,
            workflows=[Floor],
            activities=floor_activities(gate),
            max_concurrent_activities=500,
        )
    else:
        from benchmarks.subject import PROVIDER, InstantModel, Journal, subject
        from worker import ZidanePlugin

        journal = Journal(options.journal)
        plugin = ZidanePlugin(
            [subject(journal)],
            store=options.store,
            providers={PROVIDER: InstantModel(gate, journal)},
        )
        worker = Worker(client, task_queue=options.queue, plugins=[plugin])
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    # Standard input ends with the benchmark, however that ends; no worker must outlive it.
    loop.add_reader(sys.stdin.fileno(), os._exit, 1)
    async with worker:
        print(json.dumps({"heavy": [name for name in HEAVY if name in sys.modules]}), flush=True)
        await stopped.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=["zidane", "floor"])
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("--store", default=None)
    parser.add_argument("--journal", type=Path, default=None)
    parser.add_argument("--turnstile", type=Path, default=None)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--slice-turns", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(_work(_options()))
    # The Temporal SDK may crash at interpreter exit.
    sys.stdout.flush()
    os._exit(0)
