"""A call's context for the tests of the built-in tools."""

from collections.abc import Callable
from pathlib import Path

import pytest

from zidane_core.authoring import ToolContext
from zidane_core.tool_state import ToolStateView

MakeContext = Callable[..., ToolContext]


def context_in(workspace: Path, call_id: str = "call_1") -> ToolContext:
    return ToolContext(
        call_id=call_id,
        run_id=f"run-of-{workspace}",
        session_id="session",
        turn_id="turn",
        agent="agent",
        tool="tool",
        workspace=str(workspace),
        state=ToolStateView({}),
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def ctx(workspace: Path) -> ToolContext:
    return context_in(workspace)
