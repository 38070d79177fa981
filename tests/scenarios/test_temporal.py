"""Every scenario on a real server: the same session as inline, and a history that replays."""

from pathlib import Path

import pytest
from temporalio.client import Client

from activities.store import Store
from tests.scenarios.shelf import BOOK, Scenario
from tests.support.players import InlinePlayer, TemporalPlayer
from tests.support.server import replay

pytestmark = [pytest.mark.server, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("scene", BOOK.values(), ids=list(BOOK))
async def test_a_scenario_leaves_the_session_that_it_leaves_inline(
    scene: Scenario, client: Client, scene_queue: str, scene_store: Store, tmp_path: Path
):
    """CLK-03, CLK-06, DUR-01, DUR-09, DUR-12."""
    inline = InlinePlayer(scene_store, tmp_path / "inline", scene.script)
    durable = TemporalPlayer(client, scene_queue, scene_store, tmp_path / "server", scene.script)
    await scene.play(inline)
    await scene.play(durable)
    assert await durable.played() == await inline.played()
    await replay(*[await handle.fetch_history() for handle in durable.handles])
