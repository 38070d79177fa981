"""`zidane demo`: a killed worker, and every claim checked by the command itself."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.mark.crash
async def test_the_demo_holds_what_it_claims(tmp_path: Path):
    """DUR-02, K-TEMPORAL-08, K-TEMPORAL-16."""
    cli = Cli(tmp_path, tmp_path / "home", "unused")
    demo = await cli("demo", TMPDIR=os.fspath(tmp_path))
    assert demo.code == 0, demo.out + demo.err
    assert "SIGKILL" in demo.out
    assert demo.out.count("✓ every tool call ran once (6 calls, 6 lines in the log)") == 1
    assert "\x1b" not in demo.out
    assert "✗" not in demo.out
