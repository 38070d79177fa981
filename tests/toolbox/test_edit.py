"""edit, multi_edit and the replacing of texts under them."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from activities.toolbox import edit, multi_edit
from activities.toolbox.text_edits import Replacement, replace
from zidane_core.authoring import ToolContext, ToolError

CRLF_SOURCE = (
    b"int sum(const int *v, int n) {\r\n\tint t = 0;\r\n\tfor (int i = 0; i < n; i++) {\r\n"
    b"\t\tt += v[i];\r\n\t}\r\n\treturn t;\r\n}\r\n"
)
OLD_LOOP = "\tfor (int i = 0; i < n; i++) {\n\t\tt += v[i];\n\t}"
NEW_LOOP = "\twhile (n > 0) {\n\t\tn--;\n\t\tt += v[n];\n\t}"


@pytest.fixture
def file(workspace: Path) -> Path:
    return workspace / "app.conf"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_edit_of_a_crlf_file_keeps_its_line_ends(ctx: ToolContext, file: Path, end: str):
    """K-FILES-01."""
    file.write_bytes(CRLF_SOURCE)
    edit(ctx, "app.conf", OLD_LOOP.replace("\n", end), NEW_LOOP.replace("\n", end))
    old, new = (text.replace("\n", "\r\n").encode() for text in (OLD_LOOP, NEW_LOOP))
    assert file.read_bytes() == CRLF_SOURCE.replace(old, new)


def test_mixed_line_ends_stay_as_they_are(ctx: ToolContext, file: Path):
    """K-FILES-02."""
    file.write_bytes(b"a = 1\r\nb = 2\nc = 3\r\nd = 4\n")
    edit(ctx, "app.conf", "a = 1\nb = 2", "a = 10\nb = 20")
    assert file.read_bytes() == b"a = 10\r\nb = 20\nc = 3\r\nd = 4\n"


def test_an_edit_of_line_ends_alone_takes_effect(ctx: ToolContext, file: Path):
    """K-FILES-03."""
    file.write_bytes(b"left\r\nright")
    edit(ctx, "app.conf", "left\r\nright", "left\nright")
    assert file.read_bytes() == b"left\nright"


@pytest.mark.parametrize(
    ("old", "new"), [("x", "x"), ("a\nb", "a\r\nb"), ("\nb", "\r\nb"), ("1\tx", "1\tx")]
)
def test_an_edit_that_changes_nothing_is_an_error(ctx: ToolContext, file: Path, old: str, new: str):
    """K-FILES-03."""
    file.write_bytes(b"x a\r\nb")
    with pytest.raises(ToolError, match="nothing would change"):
        edit(ctx, "app.conf", old, new)
    assert (file.read_bytes(), ctx.outcome) == (b"x a\r\nb", "failed")


def test_an_edit_says_where(ctx: ToolContext, file: Path):
    """FILE-10, TOOL-09."""
    file.write_text("a\nb\nb\n")
    assert edit(ctx, "app.conf", "a", "z") == "Edited app.conf: 1 replacement, line 1."
    assert ctx.outcome == "edited"
    text = edit(ctx, "app.conf", "b", "c", replace_all=True)
    assert text == "Edited app.conf: 2 replacements, lines 2, 3."
    assert file.read_text() == "z\nc\nc\n"


def test_a_text_that_is_not_unique_is_refused_with_its_lines(ctx: ToolContext, file: Path):
    """FILE-11."""
    file.write_text("b\nx\nb\n")
    with pytest.raises(ToolError, match="occurs 2 times, on lines 1, 3"):
        edit(ctx, "app.conf", "b", "c")
    file.write_text("aaa")
    with pytest.raises(ToolError, match="occurs 2 times"):
        edit(ctx, "app.conf", "aa", "b")
    assert file.read_text() == "aaa"


def test_a_text_not_found_shows_the_nearest(ctx: ToolContext, file: Path):
    """FILE-11."""
    file.write_text("def one():\n    return 1\n\ndef two():\n    return 2\n")
    with pytest.raises(ToolError, match=r"on lines 4 to 5:\n4\tdef two\(\):\n5\t    return 2"):
        edit(ctx, "app.conf", "def two():\n    return 3", "x")
    with pytest.raises(ToolError, match="differs in white space only"):
        edit(ctx, "app.conf", "def one():\n  return 1", "x")
    with pytest.raises(ToolError, match=r"on lines 1 to 1:\n1\tdef one"):
        edit(ctx, "app.conf", "def onne( ):", "x")
    with pytest.raises(ToolError, match="nor anything like it"):
        edit(ctx, "app.conf", "zzzzzzzzzzzz", "x")


def test_line_numbers_of_a_read_are_stripped_from_both_texts(ctx: ToolContext, file: Path):
    """FILE-02."""
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    edit(ctx, "app.conf", "2\ttwo\n3\tthree\n", "2\tTWO\n3\tTHREE\nfour\n")
    assert file.read_bytes() == b"one\r\nTWO\r\nTHREE\r\nfour\r\n"


def test_numbers_that_stand_in_the_file_are_not_stripped(ctx: ToolContext, file: Path):
    """FILE-02."""
    file.write_text("1\tone\n2\ttwo\n")
    edit(ctx, "app.conf", "2\ttwo", "3\tthree")
    assert file.read_text() == "1\tone\n3\tthree\n"


def test_bytes_that_are_no_utf8_and_the_mark_survive(ctx: ToolContext, file: Path):
    file.write_bytes(b"\xef\xbb\xbfcaf\xe9 = 1\nx = 2\n\xff\xfe\xed\xa0\x80")
    edit(ctx, "app.conf", "x = 2", "x = é")
    assert file.read_bytes() == b"\xef\xbb\xbfcaf\xe9 = 1\nx = \xc3\xa9\n\xff\xfe\xed\xa0\x80"


def test_an_empty_old_string_makes_a_new_file_only(ctx: ToolContext, file: Path):
    """FILE-10, FILE-11."""
    assert edit(ctx, "app.conf", "", "a\nb\n") == "Edited app.conf: made the file, 2 lines."
    assert ctx.outcome == "created"
    with pytest.raises(ToolError, match="this file exists"):
        edit(ctx, "app.conf", "", "other")
    assert file.read_text() == "a\nb\n"
    with pytest.raises(ToolError, match="There is no file 'none'"):
        edit(ctx, "none", "a", "b")


def test_a_read_only_file_is_not_replaced(ctx: ToolContext, file: Path):
    file.write_text("a")
    file.chmod(0o444)
    try:
        with file.open("a"):
            pytest.skip("this user may write to read-only files")
    except PermissionError:
        pass
    with pytest.raises(ToolError, match="read-only"):
        edit(ctx, "app.conf", "a", "b")


def test_a_multi_edit_that_fails_changes_nothing(ctx: ToolContext, file: Path):
    """K-FILES-04."""
    file.write_text("port = 80\nhost = local\n")
    before = file.stat()
    steps = json.loads(
        '[{"old_string": "port = 80", "new_string": "port = 8080"},'
        ' {"old_string": "user = root", "new_string": "user = web"}]'
    )
    with pytest.raises(ToolError, match="edit 2 of 2 failed, none was made"):
        multi_edit(ctx, "app.conf", steps)
    after = file.stat()
    assert file.read_text() == "port = 80\nhost = local\n"
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_multi_edit_that_fails_leaves_no_new_file(ctx: ToolContext, workspace: Path):
    """K-FILES-04."""
    steps = [
        {"old_string": "", "new_string": "hello"},
        {"old_string": "absent", "new_string": "x"},
    ]
    with pytest.raises(ToolError, match="edit 2 of 2"):
        multi_edit(ctx, "sub/new.txt", steps)
    assert list(workspace.iterdir()) == []
    steps[1]["old_string"] = "hello"
    multi_edit(ctx, "sub/new.txt", steps)
    assert (workspace / "sub/new.txt").read_text() == "x"


def test_a_later_edit_sees_the_earlier_ones(ctx: ToolContext, file: Path):
    """K-FILES-04, FILE-10."""
    file.write_text("port = 80\nhost = local\n")
    text = multi_edit(
        ctx,
        "app.conf",
        [
            {"old_string": "port = 80", "new_string": "port = 8080\nuser = root"},
            {"old_string": "user = root", "new_string": "user = web"},
        ],
    )
    assert text == "Edited app.conf: 2 replacements, lines 1, 2."
    assert file.read_text() == "port = 8080\nuser = web\nhost = local\n"


def test_edits_that_cancel_each_other_out_are_an_error(ctx: ToolContext, file: Path):
    """K-FILES-03."""
    file.write_text("a")
    steps = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "a"}]
    with pytest.raises(ToolError, match="cancel each other out"):
        multi_edit(ctx, "app.conf", steps)
    with pytest.raises(ToolError, match="edits is empty"):
        multi_edit(ctx, "app.conf", [])


def test_a_file_that_is_no_text_is_refused(ctx: ToolContext, file: Path):
    for content in (b"a\0b", "a".encode("utf-16")):
        file.write_bytes(content)
        with pytest.raises(ToolError, match="not UTF-8 text"):
            edit(ctx, "app.conf", "a", "b")


def test_a_killed_edit_is_not_repeated():
    """FILE-12, TOOL-09: a repeated edit cannot tell its own result from a text never there."""
    assert not edit.spec.repeatable
    assert not multi_edit.spec.repeatable


LINE = st.text(alphabet="ab \té\udcff", max_size=4)
END = st.sampled_from(["\n", "\r\n"])
TEXT = st.lists(st.tuples(LINE, END), max_size=6).map(
    lambda lines: "".join(line + end for line, end in lines)
)


def lf(text: str) -> str:
    return text.replace("\r\n", "\n")


@given(before=TEXT, old=TEXT, after=TEXT, new=TEXT)
def test_a_replacement_changes_the_matched_region_only(before: str, old: str, after: str, new: str):
    """K-FILES-01, K-FILES-02: for any line ends, of the file and of the arguments."""
    assume(old and lf(old) != lf(new))
    try:
        done = replace(before + old + after, Replacement(lf(old), new))
    except ToolError as error:
        assume("occurs" not in str(error))
        raise
    assert done.text.startswith(before)
    assert done.text.endswith(after)
    region = done.text[len(before) : len(done.text) - len(after)]
    assert lf(region) == lf(new)


@given(text=TEXT, old=TEXT, new=TEXT, everywhere=st.booleans())
def test_a_success_always_changes_the_text(text: str, old: str, new: str, everywhere: bool):
    """K-FILES-03."""
    try:
        done = replace(text, Replacement(old, new, everywhere))
    except ToolError:
        return
    assert done.text != text
    assert done.lines == tuple(sorted(done.lines))
    assert everywhere or len(done.lines) == 1


@given(end=END, lines=st.lists(LINE, min_size=1, max_size=5), new=TEXT)
def test_a_file_of_one_kind_of_line_ends_stays_so(end: str, lines: list[str], new: str):
    """K-FILES-01."""
    text = end.join(["first", *lines, "last", ""])
    done = replace(text, Replacement("last", lf(new) + "LAST"))
    assert done.text == end.join(["first", *lines, "last", ""]).replace(
        "last", lf(new).replace("\n", end) + "LAST"
    )
