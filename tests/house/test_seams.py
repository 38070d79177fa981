"""A request, its row, its activity: one name for all three."""

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import Any, get_args

import pytest
from temporalio import activity

import activities
import workflows
import zidane_client
import zidane_core
from activities.registry import BODIES, all_activities
from workflows.placement import ROWS
from zidane_core.errors import InternalError
from zidane_core.requests import ActivityRequest
from zidane_core.values import Tagged

ROOT = Path(__file__).parents[2]
PACKAGES = (zidane_core, workflows, activities, zidane_client)
MAX_LINES = 400


def _no_worker() -> Any:
    raise InternalError("no worker runs")


def kind(request: type[Tagged]) -> str:
    return request.model_fields["kind"].default


def test_every_request_has_a_row_a_body_and_an_activity_of_its_kind():
    """DUR-01."""
    requests = set(get_args(ActivityRequest))
    defined = {
        activity._Definition.must_from_callable(run).name  # pyright: ignore[reportPrivateUsage] -- the SDK has no public way to read a definition
        for run in all_activities(_no_worker)
    }
    assert set(ROWS) == set(BODIES) == requests
    assert defined == {kind(request) for request in requests}


def modules() -> list[str]:
    found = ["worker"]
    for package in PACKAGES:
        walked = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        found += [package.__name__, *(module.name for module in walked)]
    # Alembic's own files are run by Alembic.
    return [name for name in found if ".migrations" not in name]


def test_every_exported_name_exists_and_the_lists_are_sorted():
    seen = 0
    for name in modules():
        module = importlib.import_module(name)
        exported: list[str] | None = getattr(module, "__all__", None)
        if exported is None:
            continue
        seen += 1
        assert exported == sorted(exported, key=_ruff_order), name
        for entry in exported:
            assert hasattr(module, entry), f"{name}.{entry}"
    assert seen >= 4


def _ruff_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: the order that ruff sorts `__all__` by."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def sources() -> list[Path]:
    folders = [ROOT / package.__name__ for package in PACKAGES]
    return [ROOT / "worker.py", *(path for folder in folders for path in folder.rglob("*.py"))]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_small_and_says_what_it_is(path: Path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert path.name not in {"utils.py", "common.py", "helpers.py", "types.py"}
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "no module docstring"
