"""Data goes one way round; the core knows no I/O."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")


def lint_imports(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(LINT), "--config", str(config), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_import_contract_is_kept():
    done = lint_imports(ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN = """
[importlinter]
root_package = zidane_core
[importlinter:contract:1]
name = The core imports nothing of its own errors
type = forbidden
source_modules = zidane_core.runs
forbidden_modules = zidane_core.errors
"""


def test_a_broken_contract_is_seen(tmp_path: Path):
    config = tmp_path / "broken.ini"
    config.write_text(BROKEN)
    assert lint_imports(config).returncode == 1


@pytest.mark.parametrize("package", ["zidane_core", "workflows.agent_run"])
def test_an_import_pulls_in_neither_store_nor_vendor(package: str):
    """A client that only starts runs stays small."""
    code = (
        f"import sys, {package}\n"
        "heavy = {'sqlalchemy', 'alembic', 'anthropic', 'openai', 'sqlite3', 'typer', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
