"""read_file and write_file."""

import os
from pathlib import Path

import pytest

from activities.toolbox import read_file, write_file
from activities.toolbox.files import MAX_READ_BYTES
from zidane_core.authoring import ToolContext, ToolError
from zidane_core.content import ImageBlock

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def put(workspace: Path, name: str, content: bytes) -> Path:
    path = workspace / name
    path.write_bytes(content)
    return path


def test_lines_have_their_number_and_a_tab(ctx: ToolContext, workspace: Path):
    """FILE-02."""
    put(workspace, "a.txt", b"one\ntwo\n")
    assert read_file(ctx, "a.txt") == "1\tone\n2\ttwo"
    assert read_file(ctx, "a.txt", line_numbers=False) == "one\ntwo"


def test_a_page_says_what_was_left_out_and_how_to_read_on(ctx: ToolContext, workspace: Path):
    """FILE-01."""
    put(workspace, "a.txt", b"".join(b"line %d\n" % n for n in range(1, 11)))
    assert read_file(ctx, "a.txt", offset=3, limit=2) == (
        "3\tline 3\n4\tline 4\n[Lines 3 to 4 of 10 are shown. Read on with offset=5.]"
    )
    assert read_file(ctx, "a.txt", offset=10) == "10\tline 10"


def test_pages_put_together_are_the_file(ctx: ToolContext, workspace: Path):
    """FILE-01: no line is lost or shown twice at a border of pages."""
    lines = [f"{'x' * (n % 37)} {n} é" for n in range(1, 500)]
    put(workspace, "a.txt", "\n".join(lines).encode())
    seen: list[str] = []
    while len(seen) < len(lines):
        page = read_file(ctx, "a.txt", offset=len(seen) + 1, max_bytes=700, line_numbers=False)
        shown = [line for line in page.split("\n") if not line.startswith("[Lines ")]
        assert 0 < len("\n".join(shown).encode()) <= 700
        seen += shown
    assert seen == lines


def test_a_large_file_gives_a_bounded_result(ctx: ToolContext, workspace: Path):
    """K-TEMPORAL-01, FILE-01."""
    put(workspace, "big.txt", (b"x" * 89 + b"\n") * 30_000)
    page = read_file(ctx, "big.txt")
    assert len(page) < 66_000
    assert "of 30000 are shown. Read on with offset=" in page
    greedy = read_file(ctx, "big.txt", limit=100_000, max_bytes=10_000_000)
    assert len(greedy) < MAX_READ_BYTES + 200


def test_a_line_too_long_for_a_page_is_cut_and_the_next_can_be_read(
    ctx: ToolContext, workspace: Path
):
    """FILE-01, K-TEMPORAL-01."""
    put(workspace, "min.js", b"a" * 1_000_000 + b"\nend\n")
    page = read_file(ctx, "min.js", max_bytes=1_000)
    assert page.startswith("1\taaa")
    assert "Line 1 is too long to show: its last 999003 bytes were left out" in page
    assert "Lines 1 to 1 of 2 are shown. Read on with offset=2." in page
    assert read_file(ctx, "min.js", offset=2) == "2\tend"


def test_reading_past_the_end_says_how_many_lines_there_are(ctx: ToolContext, workspace: Path):
    """FILE-01."""
    put(workspace, "a.txt", b"one\ntwo")
    for offset in (3, 4, 99):
        with pytest.raises(ToolError, match=f"offset {offset} is past the end: the file has 2"):
            read_file(ctx, "a.txt", offset=offset)
    put(workspace, "empty.txt", b"")
    assert read_file(ctx, "empty.txt") == "[The file is empty.]"


def test_a_byte_order_mark_and_bad_bytes_do_not_stop_a_read(ctx: ToolContext, workspace: Path):
    put(workspace, "a.txt", b"\xef\xbb\xbfcaf\xe9\r\nnext\r\n")
    assert read_file(ctx, "a.txt") == "1\tcaf\ufffd\n2\tnext"


def test_a_missing_file_names_those_that_are_alike(ctx: ToolContext, workspace: Path):
    (workspace / "src").mkdir()
    put(workspace, "src/README.md", b"")
    put(workspace, "src/settings.py", b"")
    with pytest.raises(ToolError, match=r"Near names in 'src': \['settings.py'\]"):
        read_file(ctx, "src/setings.py")
    with pytest.raises(ToolError, match=r"Near names in 'src': \['README.md'\]"):
        read_file(ctx, "src/readme.md")
    with pytest.raises(ToolError, match=r"Near names in '.': \['src'\]"):
        read_file(ctx, "sric/settings.py")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\x7fELF\0\0", "is binary"), ("hi".encode("utf-16"), "is text in UTF-16")],
)
def test_what_is_no_text_is_refused(ctx: ToolContext, workspace: Path, content: bytes, said: str):
    put(workspace, "x", content)
    with pytest.raises(ToolError, match=said):
        read_file(ctx, "x")


def test_folders_and_pipes_are_refused_at_once(ctx: ToolContext, workspace: Path):
    os.mkfifo(workspace / "pipe")
    for path, said in (("pipe", "no regular file"), (".", "is a folder")):
        with pytest.raises(ToolError, match=said):
            read_file(ctx, path)
    with pytest.raises(ToolError, match="is a folder"):
        write_file(ctx, ".", "x")


def test_an_image_comes_as_a_block(ctx: ToolContext, workspace: Path):
    """FILE-01."""
    put(workspace, "a.png", PNG)
    note, image = read_file(ctx, "a.png")
    assert note.text == f"a.png: image/png, {len(PNG)} bytes."
    assert isinstance(image, ImageBlock)
    assert (image.media_type, image.name) == ("image/png", "a.png")
    put(workspace, "b.png", PNG + bytes(5_000_000))
    with pytest.raises(ToolError, match="at most 5000000"):
        read_file(ctx, "b.png")


def test_a_write_says_whether_it_created_or_updated(ctx: ToolContext, workspace: Path):
    """FILE-10, FILE-12, TOOL-09: the same call twice is safe."""
    seen: list[tuple[str, str | None]] = []
    for content in ("a\n", "a\nb\n", "a\nb\n"):
        text = write_file(ctx, "new/deep/a.txt", content)
        seen.append((text, ctx.outcome))
    assert seen == [
        ("Created new/deep/a.txt: 1 line, 2 bytes.", "created"),
        ("Updated new/deep/a.txt: 2 lines, 4 bytes.", "updated"),
        ("No change needed: new/deep/a.txt already holds exactly this.", "noop"),
    ]
    assert (workspace / "new/deep/a.txt").read_bytes() == b"a\nb\n"
    assert write_file.spec.idempotent


def test_a_write_keeps_the_mode_and_leaves_no_other_file(ctx: ToolContext, workspace: Path):
    """FILE-12."""
    script = put(workspace, "run.sh", b"old")
    script.chmod(0o750)
    write_file(ctx, "run.sh", "new")
    assert script.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in workspace.iterdir()] == ["run.sh"]


def test_a_write_over_a_large_file_works(ctx: ToolContext, workspace: Path):
    path = put(workspace, "a", b"x" * 20_000_000)
    assert write_file(ctx, "a", "small") == "Updated a: 1 line, 5 bytes."
    assert path.read_bytes() == b"small"


def test_a_failed_write_reports_that_it_had_no_effect(ctx: ToolContext, workspace: Path):
    """TOOL-09."""
    put(workspace, "file", b"x")
    with pytest.raises(ToolError, match="Cannot use 'file/below'"):
        write_file(ctx, "file/below", "y")
    assert ctx.outcome == "failed"


def test_content_that_is_no_unicode_is_written_with_replacements(ctx: ToolContext, workspace: Path):
    write_file(ctx, "a", "x\ud800y")
    assert (workspace / "a").read_text() == "x\ufffdy"
