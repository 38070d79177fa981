"""Bounding of output."""

from hypothesis import given
from hypothesis import strategies as st

from activities.toolbox.capping import HeadAndTail, cap_lines, showable

PIECES = st.lists(
    st.one_of(st.binary(max_size=60), st.text(max_size=30).map(lambda text: text.encode())),
    max_size=20,
)


@given(pieces=PIECES, max_bytes=st.integers(16, 300), head_bytes=st.integers(0, 15))
def test_what_is_shown_of_a_stream_is_bounded(pieces: list[bytes], max_bytes: int, head_bytes: int):
    """BG-08, K-TEMPORAL-01, K-SHELL-03."""
    output = HeadAndTail(max_bytes=max_bytes, head_bytes=head_bytes)
    for piece in pieces:
        output.feed(piece)
    whole = b"".join(pieces)
    text = output.text()
    assert "\0" not in text
    assert output.total_bytes == len(whole)
    if len(showable(whole).encode()) <= max_bytes:
        assert text == showable(whole)
        return
    before, _, rest = text.rpartition("\n[... ")
    note, _, tail = rest.partition(" ...]\n")
    assert len((before + tail).encode()) <= max_bytes
    left_out = int(note.split(" of ")[0])
    assert 0 < left_out <= len(whole)
    assert f" of {len(whole)} bytes" in note


@given(text=st.text(alphabet="aé€😀", min_size=100, max_size=300))
def test_characters_are_shown_whole(text: str):
    """K-SHELL-03."""
    output = HeadAndTail(max_bytes=64, head_bytes=16)
    for byte in text.encode():
        output.feed(bytes([byte]))
    shown = output.text()
    head, _, rest = shown.partition("\n[... ")
    assert "\ufffd" not in shown
    assert text.startswith(head)
    assert text.endswith(rest.partition(" ...]\n")[2])
    left_out = int(rest.split(" of ")[0])
    kept = len(head.encode()) + len(rest.partition(" ...]\n")[2].encode())
    assert left_out == len(text.encode()) - kept


def test_a_stream_of_any_length_takes_little_memory():
    """BG-08."""
    output = HeadAndTail(max_bytes=1_000, head_bytes=100)
    for _ in range(1_000):
        output.feed(b"x" * 10_000)
    assert len(output._head) + len(output._tail) < 20_000  # pyright: ignore[reportPrivateUsage] - the promise is about what it holds
    assert "[... 9999000 of 10000000 bytes left out here ...]" in output.text()


@given(lines=st.lists(st.text(max_size=20), max_size=20), max_bytes=st.integers(0, 100))
def test_lines_are_kept_from_the_first_on_while_they_fit(lines: list[str], max_bytes: int):
    """K-TEMPORAL-01."""
    kept, left_out = cap_lines(lines, max_bytes=max_bytes)
    assert kept == lines[: len(kept)]
    assert len(kept) + left_out == len(lines)
    assert sum(len(line.encode()) + 1 for line in kept) <= max_bytes
