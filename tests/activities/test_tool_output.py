"""What a tool returns is bounded and normalised before anyone sees it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from activities.store import open_store
from activities.tool_bodies import check_arguments, normalised_output
from activities.tool_output import MAX_OUTPUT_BYTES, bounded_output
from zidane_core import ToolError, tool
from zidane_core.content import ImageBlock, TextBlock


async def test_a_huge_output_keeps_head_and_tail_and_says_where_the_whole_is(
    tmp_path: Path,
) -> None:
    """K-TEMPORAL-01, K-PAIRING-02 (c): cuts fall between characters."""
    store = await open_store(f"sqlite:///{tmp_path / 'z.db'}")
    whole = "\U0001f600" * 100_000
    shown = await bounded_output(store, whole, tool="shell")
    assert isinstance(shown, str)
    assert len(shown.encode()) < MAX_OUTPUT_BYTES + 500
    assert shown.startswith("\U0001f600")
    assert shown.endswith("\U0001f600")
    assert "\ufffd" not in shown
    blob = shown.split("as blob ")[1].split(".")[0]
    assert await store.blob(blob) == whole.encode()
    await store.close()


async def test_a_small_output_and_attachments_pass_unchanged(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'z.db'}")
    blocks = (TextBlock(text="x"), ImageBlock(media_type="image/png", data="A" * 300_000))
    assert await bounded_output(store, "x" * MAX_OUTPUT_BYTES, tool="t") == "x" * MAX_OUTPUT_BYTES
    assert await bounded_output(store, blocks, tool="t") == blocks
    await store.close()


class Point(BaseModel):
    x: int


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (None, ""),
        ("text", "text"),
        ({"a": 1}, '{"a": 1}'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        (3.5, "3.5"),
        (Point(x=1), '{"x":1}'),
        ([{"type": "text", "text": "t"}], (TextBlock(text="t"),)),
        ((TextBlock(text="t"),), (TextBlock(text="t"),)),
    ],
)
def test_a_body_may_return_text_blocks_models_or_json(returned: Any, output: Any) -> None:
    """TOOL-01."""
    assert normalised_output(returned) == output


def test_anything_else_is_an_error_that_names_its_type() -> None:
    with pytest.raises(ToolError, match="returned object"):
        normalised_output(object())


@tool
def typed(count: int, flag: bool = False) -> str:
    """Take typed arguments."""
    return f"{count} {flag}"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"count": 1}, None),
        ({"count": 1, "flag": True}, None),
        ({}, '"count" is a required property'),
        ({"count": "many"}, 'count: "many" is not of type "integer"'),
        ({"count": 1, "extra": 2}, "Additional properties"),
    ],
)
def test_arguments_are_checked_against_the_schema(
    arguments: dict[str, Any], problem: str | None
) -> None:
    """TOOL-08."""
    found = check_arguments(typed, arguments)
    assert found is None if problem is None else problem in (found or "")
