"""list_files, glob and grep."""

from pathlib import Path

import pytest

from activities.toolbox import basic_tools, glob, grep, list_files, search
from zidane_core.authoring import ToolContext, ToolError

FILES = {
    ".gitignore": "node_modules/\n/gen.py\n*.log\n",
    "gen.py": "needle\n",
    "a.log": "needle\n",
    "main.py": "one\nneedle here\nthree\n",
    ".github/ci.yml": "needle: ci\n",
    ".git/config": "needle\n",
    ".zidane/store": "needle\n",
    ".zidane-0a1b.tmp": "needle\n",
    "node_modules/x/index.js": "needle\n",
    "src/gen.py": "Needle\n",
    "src/.gitignore": "!keep.log\n",
    "src/keep.log": "needle kept\n",
    "src/deep/er/mod.ts": "x\n",
    "src/bin": "needle\0\n",
}


@pytest.fixture(params=["ripgrep", "python"])
def finder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to search must give the same."""
    if request.param == "python":
        monkeypatch.setattr(search, "find_ripgrep", lambda: None)
    else:
        assert search.find_ripgrep() is not None
    return str(request.param)


@pytest.fixture
def tree(workspace: Path) -> Path:
    for name, content in FILES.items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return workspace


def test_a_listing_shows_folders_and_links_and_hides_what_git_does(ctx: ToolContext, tree: Path):
    (tree / "empty").mkdir()
    (tree / "out").symlink_to("/")
    assert list_files(ctx).split("\n") == [
        ".github/",
        ".github/ci.yml",
        ".gitignore",
        "empty/",
        "main.py",
        "out -> /",
        "src/",
        "src/.gitignore",
        "src/bin",
        "src/deep/",
        "src/gen.py",
        "src/keep.log",
        "[3 ignored by .gitignore not shown.]",
    ]
    assert list_files(ctx, "src/deep", 1) == "src/deep/er/"
    assert list_files(ctx, "empty") == "[empty is empty.]"


async def test_an_ignored_folder_can_be_asked_for(ctx: ToolContext, tree: Path, finder: str):
    assert list_files(ctx, "node_modules") == "node_modules/x/\nnode_modules/x/index.js"
    found = await grep(ctx, "needle", "node_modules")
    assert found == "node_modules/x/index.js:1:needle"


def test_a_listing_is_bounded(ctx: ToolContext, workspace: Path):
    """K-TEMPORAL-01."""
    for number in range(2_000):
        (workspace / f"{'n' * 40}{number:04}").touch()
    listing = list_files(ctx)
    assert len(listing) < 33_000
    assert listing.endswith("[1272 more left out. Name a folder inside, or a smaller depth.]")
    with pytest.raises(ToolError, match="is no folder"):
        list_files(ctx, "absent")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", ["main.py", "src/gen.py"]),
        ("*.py", ["main.py", "src/gen.py"]),
        ("src/*.{py,ts}", ["src/gen.py"]),
        ("./src/**/*.ts", ["src/deep/er/mod.ts"]),
        ("**/*.log", ["src/keep.log"]),
        ("**/config", []),
        ("**/.zidane*", []),
        ("**/index.js", []),
    ],
)
async def test_a_glob_finds_files_by_path(
    ctx: ToolContext, tree: Path, finder: str, pattern: str, found: list[str]
):
    text = await glob(ctx, pattern)
    assert text.split("\n") == found if found else text.startswith("No file matches")


async def test_a_glob_of_too_many_is_refused(ctx: ToolContext, tree: Path):
    with pytest.raises(ToolError, match="not a usable pattern"):
        await glob(ctx, "{1..9}{1..9}{1..9}{1..9}/" + "{a,b}" * 20)


async def test_a_search_shows_path_line_and_text(ctx: ToolContext, tree: Path, finder: str):
    assert await grep(ctx, "needle") == (
        ".github/ci.yml:1:needle: ci\nmain.py:2:needle here\nsrc/keep.log:1:needle kept"
    )
    assert await grep(ctx, "needle", "src", ignore_case=True) == (
        "src/gen.py:1:Needle\nsrc/keep.log:1:needle kept"
    )
    assert await grep(ctx, "needle", glob="*.py") == "main.py:2:needle here"
    assert await grep(ctx, "needle", "main.py", context=1) == (
        "main.py-1-one\nmain.py:2:needle here\nmain.py-3-three"
    )
    assert await grep(ctx, "absent", "src") == "No match for 'absent' in src."


async def test_a_search_is_bounded_and_counts_the_rest(
    ctx: ToolContext, workspace: Path, finder: str
):
    """K-TEMPORAL-01."""
    (workspace / "a").write_text("hit\n" * 300)
    text = await grep(ctx, "hit", max_results=2)
    assert text == (
        "a:1:hit\na:2:hit\n[298 more matches left out. Narrow the pattern, the path or the glob.]"
    )
    (workspace / "a").write_text(f"{'x' * 500}\n" * 15_000)
    text = await grep(ctx, "x", max_results=1_000)
    assert len(text.encode()) < 33_000
    assert "more than 10000 matches left out" in text


async def test_separate_places_are_set_apart(ctx: ToolContext, workspace: Path, finder: str):
    (workspace / "a").write_text("hit\nb\nc\nd\nhit\n")
    assert await grep(ctx, "hit", context=1) == "a:1:hit\na-2-b\n--\na-4-d\na:5:hit"


async def test_a_bad_pattern_or_path_is_an_error_result(ctx: ToolContext, tree: Path, finder: str):
    for call in (grep(ctx, "("), grep(ctx, "x", "absent")):
        with pytest.raises(ToolError):
            await call
    assert "No match" in await grep(ctx, "-e --files", "src")


@pytest.mark.timeout(20)
async def test_links_in_a_circle_are_not_followed(ctx: ToolContext, workspace: Path, finder: str):
    """K-SEARCH-01."""
    for folder in ("loop", "self"):
        (workspace / folder).mkdir()
    (workspace / "loop/child").symlink_to("..")
    (workspace / "self/link").symlink_to(".")
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    (workspace / "out").symlink_to("/usr")
    (workspace / "loop/x.py").write_text("x\n")
    assert await glob(ctx, "**/*.py") == "loop/x.py"
    assert await grep(ctx, "x") == "loop/x.py:1:x"
    assert list_files(ctx, depth=9) == (
        "a -> b\nb -> a\nloop/\nloop/child -> ..\nloop/x.py\nout -> /usr\nself/\nself/link -> ."
    )


async def test_a_name_that_is_no_utf8_is_shown_all_the_same(
    ctx: ToolContext, workspace: Path, finder: str
):
    (workspace / "caf\udce9.txt").write_text("x\n")
    assert list_files(ctx) == "caf\ufffd.txt"
    assert await glob(ctx, "*.txt") == "caf\ufffd.txt"
    assert await grep(ctx, "x") == "caf\ufffd.txt:1:x"


def test_the_flags_say_what_may_run_beside_what():
    """TOOL-02, DUR-02."""

    def named(flag: str) -> list[str]:
        return [tool.name for tool in basic_tools if getattr(tool.spec, flag)]

    assert named("read_only") == ["read_file", "list_files", "glob", "grep"]
    assert named("concurrency_safe") == ["read_file", "list_files", "glob", "grep"]
    assert named("quick") == ["read_file", "list_files", "glob"]
    assert named("idempotent") == ["write_file"]
