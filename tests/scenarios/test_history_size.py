"""What a turn costs in history: the same however much the model and its tools say."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHistory

from activities.store import Store
from tests.scenarios.book import call
from tests.support.histories import chain, size_bytes
from tests.support.players import TemporalPlayer

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

TURNS = 12


def script_of(tool: dict[str, Any], text: str) -> list[dict[str, Any]]:
    return [
        {"text": text, "chunk_chars": 1, "tool_calls": [{**tool, "id": f"c{n}"}]}
        for n in range(TURNS)
    ]


LONG = script_of(call("big", "", lines=220), "x" * 400)
SHORT = script_of(call("big", "", lines=0), "x")
QUICK = script_of(call("glance", "", text="x"), "x" * 400)


@pytest.mark.parametrize(
    ("script", "max_events", "max_bytes"),
    [(LONG, 12.0, 3072), (SHORT, 12.0, 3072), (QUICK, 8.0, 3072)],
    ids=["20 KB a call", "nothing a call", "a quick tool"],
)
async def test_a_turn_costs_a_bounded_number_of_events_and_bytes(
    script: list[dict[str, Any]],
    max_events: float,
    max_bytes: int,
    client: Client,
    scene_queue: str,
    scene_store: Store,
    tmp_path: Path,
):
    """K-TEMPORAL-12, DUR-07: 400 deltas and 20 KB of output a turn leave no trace."""
    history = await history_of(script, client, scene_queue, scene_store, tmp_path)
    # The first eleven events set the run up and end it.
    assert (len(history.events) - 11) / (TURNS + 1) <= max_events
    assert size_bytes(history) / (TURNS + 1) <= max_bytes


async def history_of(
    script: list[dict[str, Any]], client: Client, queue: str, store: Store, folder: Path
) -> WorkflowHistory:
    player = TemporalPlayer(client, queue, store, folder / "s", script)
    await player.start(prompt="go", stream=True)
    assert (await player.result())["status"] == "completed"
    (history,) = await chain(client, player.handle)
    return history
