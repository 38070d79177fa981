"""Messages while a run continues as new: each once, in order (server told to suggest it early)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.store import Store
from tests.scenarios.book import GATED, call
from tests.support.histories import chain, failed_tasks
from tests.support.players import TemporalPlayer
from tests.support.server import queue_of, replay, scene_worker
from zidane_client.embedded import embedded_server

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]

SUGGEST_AT = 40
"""Events; a turn with a call takes nine to twelve, so that every fourth boundary continues."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def early_client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    config: dict[str, Any] = {"limit.historyCount.suggestContinueAsNew": SUGGEST_AT}
    home = tmp_path_factory.mktemp("early")
    async with embedded_server(home, idle_s=1, dynamic_config=config) as server:
        yield await Client.connect(server.address)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def early_queue(early_client: Client, scene_store: Store) -> AsyncIterator[str]:
    queue = queue_of("early")
    async with scene_worker(early_client, queue, scene_store):
        yield queue


def long_script(turns: int) -> list[dict[str, Any]]:
    """Turns with a call each; the last but one waits until the test has sent everything."""
    calls = [{"tool_calls": [call("echo", f"c{n}", text=f"{n}")]} for n in range(turns)]
    return [*calls, {"text": "<gate end>"}, {"text": "done"}]


async def checked(player: TemporalPlayer, client: Client, sent: list[str]) -> int:
    """Check that each message was taken once and in order; return how often the run continued."""
    result = await player.result()
    assert (result["status"], result["unconsumed"]) == ("completed", [])
    played = await player.played()
    taken = [turn["message_id"] for turn in played.turns if "message_id" in turn]
    assert taken == sent
    histories = await chain(client, player.handle)
    assert [why for history in histories for why in failed_tasks(history)] == []
    await replay(*histories)
    return len(histories) - 1


async def test_bursts_at_the_threshold_are_taken_once_and_in_order(
    early_client: Client, early_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-03, DUR-06: fifty bursts of three, also as the run continues."""
    turns = 51
    player = TemporalPlayer(
        early_client, early_queue, scene_store, tmp_path / "s", long_script(turns)
    )
    await player.start(prompt="go", model=GATED)
    sent: list[str] = []
    for turn in range(1, turns):
        await player.until(lambda status, turn=turn: int(str(status["turn"])) >= turn)
        for part in "abc":
            sent.append(f"{turn}{part}")
            await player.send("steer", {"prompt": sent[-1], "id": sent[-1]})
    player.open("end")
    continued = await checked(player, early_client, sent)
    assert continued >= 4


async def test_a_stream_of_200_messages_neither_starves_nor_loses(
    early_client: Client, early_queue: str, scene_store: Store, tmp_path: Path
):
    """K-TEMPORAL-03, DUR-06: one message after the other during the whole run."""
    player = TemporalPlayer(early_client, early_queue, scene_store, tmp_path / "s", long_script(30))
    await player.start(prompt="go", model=GATED)
    sent = [f"m{number}" for number in range(200)]
    for message in sent:
        await player.send("steer", {"prompt": message, "id": message})
    player.open("end")
    continued = await checked(player, early_client, sent)
    assert continued >= 2
