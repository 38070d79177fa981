"""No tool leaves the workspace."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activities.toolbox import (
    edit,
    glob,
    grep,
    list_files,
    multi_edit,
    read_file,
    shell,
    write_file,
)
from activities.toolbox.workspace import (
    Workspace,
    WorkspaceLostError,
    open_file,
    read_original,
    replace_file,
)
from tests.toolbox.conftest import context_in
from zidane_core.authoring import ToolContext, ToolError

CALLS: list[Callable[[ToolContext, str], Any]] = [
    lambda ctx, path: read_file(ctx, path),
    lambda ctx, path: write_file(ctx, path, "evil"),
    lambda ctx, path: edit(ctx, path, "secret", "evil"),
    lambda ctx, path: edit(ctx, path, "", "evil"),
    lambda ctx, path: multi_edit(ctx, path, [{"old_string": "secret", "new_string": "evil"}]),
    lambda ctx, path: list_files(ctx, path),
]


@pytest.fixture
def outside(tmp_path: Path, workspace: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "victim.txt").write_text("secret")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "real.md").write_text("real")
    (workspace / "notes.md").symlink_to(folder / "victim.txt")
    (workspace / "new.md").symlink_to(folder / "not-yet.txt")
    (workspace / "d").symlink_to(folder)
    (workspace / "ok.md").symlink_to("sub/real.md")
    return folder


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "path",
    [
        "notes.md",
        "new.md",
        "d",
        "d/x",
        "sub/../../outside/victim.txt",
        "../outside/x",
        "/etc/passwd",
    ],
)
def test_what_leads_outside_is_refused(
    ctx: ToolContext, outside: Path, call: Callable[[ToolContext, str], Any], path: str
):
    """K-FILES-06."""
    with pytest.raises(ToolError, match="outside of the workspace"):
        call(ctx, path)
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [
        ("victim.txt", "secret")
    ]


async def test_a_search_does_not_start_outside(ctx: ToolContext, outside: Path):
    """K-FILES-06."""
    with pytest.raises(ToolError, match="outside of the workspace"):
        await grep(ctx, "secret", "d")
    for pattern in ("../outside/*", f"{outside}/*"):
        with pytest.raises(ToolError, match="outside of the workspace"):
            await glob(ctx, pattern)


def test_a_link_inside_is_written_through(ctx: ToolContext, workspace: Path, outside: Path):
    """K-FILES-06."""
    assert write_file(ctx, "ok.md", "changed") == "Updated sub/real.md: 1 line, 7 bytes."
    assert (workspace / "ok.md").is_symlink()
    assert (workspace / "sub/real.md").read_text() == "changed"
    assert outside.exists()


def test_a_workspace_behind_a_link_takes_both_of_its_names(
    tmp_path: Path, workspace: Path, outside: Path
):
    """K-FILES-06."""
    (tmp_path / "alias").symlink_to(workspace)
    ctx = context_in(tmp_path / "alias")
    for path in (
        "sub/real.md",
        str(tmp_path / "alias" / "sub/real.md"),
        str(workspace / "sub/real.md"),
    ):
        assert read_file(ctx, path) == "1\treal"
    assert outside.exists()


def test_links_in_a_circle_are_an_error(ctx: ToolContext, workspace: Path):
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    for call in CALLS[:4]:
        with pytest.raises(ToolError):
            call(ctx, "a")


def test_a_link_put_in_the_way_after_the_check_is_not_followed(workspace: Path, outside: Path):
    """K-FILES-06: the race between check and use."""
    place = Workspace.at(str(workspace)).place("sub/victim.txt")
    (workspace / "sub").rename(workspace / "moved")
    (workspace / "sub").symlink_to(outside)
    with pytest.raises(ToolError), open_file(place):
        pass
    with pytest.raises(ToolError):
        replace_file(place, b"evil", original=None)
    assert (outside / "victim.txt").read_text() == "secret"


def test_a_file_changed_between_read_and_write_is_left_alone(workspace: Path):
    """FILE-12."""
    place = Workspace.at(str(workspace)).place("a.txt")
    (workspace / "a.txt").write_text("mine")
    original = read_original(place, max_bytes=100)
    (workspace / "a.txt").write_text("theirs, longer")
    with pytest.raises(ToolError, match="changed by someone else"):
        replace_file(place, b"new", original=original)
    assert [path.read_text() for path in workspace.iterdir()] == ["theirs, longer"]


@pytest.mark.parametrize("path", ["", "a\0b", "a" * 300, "x/" * 3_000])
def test_a_path_that_is_none_is_an_error_result(ctx: ToolContext, path: str):
    for call in CALLS:
        with pytest.raises(ToolError):
            call(ctx, path)
    assert list(Path(ctx.workspace).iterdir()) == []


async def test_a_lost_workspace_is_told_apart_from_a_missing_file(
    ctx: ToolContext, workspace: Path
):
    """K-TEMPORAL-13."""
    write_file(ctx, "a.txt", "x")
    shutil.rmtree(workspace)
    for call in CALLS:
        with pytest.raises(WorkspaceLostError, match="workspace lost: "):
            call(ctx, "a.txt")
    for running in (shell(ctx, "ls"), glob(ctx, "*"), grep(ctx, "x")):
        with pytest.raises(WorkspaceLostError, match="workspace lost: "):
            await running
    with pytest.raises(WorkspaceLostError):
        Workspace.at(str(workspace))


NAMES = st.sampled_from(["..", ".", "sub", "d", "new.md", "notes.md", "ok.md", "x", "", "up"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(parts=st.lists(NAMES, min_size=1, max_size=6), absolute=st.booleans())
def test_every_path_lies_inside_or_is_refused(
    workspace: Path, outside: Path, parts: list[str], absolute: bool
):
    """K-FILES-06."""
    if not (workspace / "sub/up").is_symlink():
        (workspace / "sub/up").symlink_to("../..")
    path = ("/" if absolute else "") + "/".join(parts)
    try:
        place = Workspace.at(str(workspace)).place(path)
    except ToolError:
        return
    # What the kernel would open, asked in another way than by the code under test.
    assert (workspace / path).resolve().is_relative_to(workspace.resolve())
    assert place.path == (workspace / path).resolve()
    assert outside not in [place.path, *place.path.parents]
