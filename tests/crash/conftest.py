"""A rig per test, on the server that the test run shares."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.crash_rig import Rig, rig_on
from zidane_client.embedded import EmbeddedServer


@pytest.fixture
async def rig(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Rig]:
    """Workers and runs; no test on it kills the server."""
    async with rig_on(server, tmp_path) as made:
        yield made
