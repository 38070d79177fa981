"""Every scenario in this process, without Temporal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from activities.store import Store, open_store
from tests.scenarios.shelf import BOOK, Scenario
from tests.support.players import InlinePlayer


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")
    yield opened
    await opened.close()


@pytest.mark.parametrize("scene", BOOK.values(), ids=list(BOOK))
async def test_a_scenario_goes_as_written(scene: Scenario, store: Store, tmp_path: Path):
    player = InlinePlayer(store, tmp_path / "scene", scene.script)
    await scene.play(player)
