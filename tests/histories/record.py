"""Records histories for the replay corpus: `python -m tests.histories.record`.

Only adds what is missing: a recorded history that no longer replays needs a patch in the
workflow, not a new recording.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client, WorkflowHistory

from activities.store import Store, open_store
from tests.scenarios.book import call
from tests.scenarios.shelf import BOOK
from tests.support.histories import chain
from tests.support.players import TemporalPlayer
from tests.support.server import scene_worker
from zidane_client.embedded import embedded_server

HERE = Path(__file__).parent
CORPUS = (
    "a_plain_answer",
    "tools_in_parallel",
    "a_barrier_between_two_calls",
    "plain_async_threaded_and_local_bodies",
    "a_steer_between_calls",
    "a_steer_during_the_stream",
    "follow_ups_one_by_one",
    "a_pause_that_holds",
    "an_abort_in_a_tool",
    "a_question_to_a_person",
    "a_provider_that_comes_back",
    "a_run_parked_until_the_key_is_mended",
    "too_many_tokens",
    "a_request_that_is_wrong",
    "signals_that_cannot_be_read",
    "an_output_after_two_reminders",
    "an_output_beside_another_call",
    "a_context_that_is_too_long",
    "a_history_that_is_mended_once",
)
CONTINUED = "a_run_that_continued_as_new"
"""The second history of a chain: it starts from a carried state."""


async def main() -> None:
    wanted = [name for name in CORPUS if not _file(name).exists()]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        store = await open_store(f"sqlite:///{home / 'zidane.db'}")
        async with embedded_server(home / "server", idle_s=0.5) as server:
            client = await Client.connect(server.address)
            async with scene_worker(client, "record", store):
                for name in wanted:
                    scene = BOOK[name]
                    player = TemporalPlayer(client, "record", store, home / name, scene.script)
                    await scene.play(player)
                    (history,) = await chain(client, player.handle)
                    _keep(name, history)
        if not _file(CONTINUED).exists():
            await _record_continued(home, store)
        await store.close()


async def _record_continued(home: Path, store: Store) -> None:
    early = {"limit.historyCount.suggestContinueAsNew": 30}
    script = [{"tool_calls": [call("echo", f"c{n}", text=f"{n}")]} for n in range(5)]
    async with embedded_server(home / "early", idle_s=0.5, dynamic_config=early) as server:
        client = await Client.connect(server.address)
        async with scene_worker(client, "record", store):
            player = TemporalPlayer(client, "record", store, home / CONTINUED, script)
            await player.start(prompt="go")
            await player.result()
            _, second, *_ = await chain(client, player.handle)
            _keep(CONTINUED, second)


def _file(name: str) -> Path:
    return HERE / f"{name}.json"


def _keep(name: str, history: WorkflowHistory) -> None:
    _file(name).write_text(history.to_json() + "\n")
    print(f"recorded {name}: {len(history.events)} events")


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    os._exit(0)
