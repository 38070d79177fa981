import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from zidane_core.content import (
    CONTENT,
    AudioPart,
    DocumentBlock,
    DocumentPart,
    ImageBlock,
    ImagePart,
    Prompt,
    TextBlock,
    TextPart,
    ThinkingBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    VideoPart,
    clean_json,
    clean_text,
    clip_utf8,
    prompt_blocks,
    tool_output_budget_byte_length,
    tool_output_byte_length,
    tool_result_to_text,
)

PROMPT: TypeAdapter[Prompt] = TypeAdapter(Prompt)
IMAGE = ImageBlock(media_type="image/png", data="A" * 1024)
REF = DocumentBlock(media_type="application/pdf", ref="doc-1")
anything = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20)


def test_a_string_prompt_is_one_text_block():
    """PART-01, RUN-02."""
    assert prompt_blocks("hello") == (TextBlock(text="hello"),)


def test_parts_become_blocks_in_their_order():
    """PART-01 to PART-04."""
    parts = (
        TextPart(text="see"),
        ImagePart(data="QQ==", media_type="image/png", name="a.png"),
        AudioPart(data="QQ==", media_type="audio/wav"),
        VideoPart(data="QQ==", media_type="video/mp4"),
        DocumentPart(data="raw", media_type="text/plain", encoding="text"),
    )
    blocks = prompt_blocks(parts)
    assert [block.type for block in blocks] == ["text", "image", "audio", "video", "document"]
    assert blocks[1] == ImageBlock(data="QQ==", media_type="image/png", name="a.png")
    assert blocks[4] == DocumentBlock(data="raw", media_type="text/plain", encoding="text")


def test_a_prompt_of_parts_survives_packing():
    """PART-01: a part without its type could not be read back."""
    parts: Prompt = (TextPart(text="x"), ImagePart(data="QQ==", media_type="image/png"))
    packed = PROMPT.dump_python(parts, mode="json", exclude_defaults=True)
    assert PROMPT.validate_python(packed) == parts


def test_blocks_survive_packing_with_their_type():
    """SESS-05, SESS-06, SESS-07."""
    blocks = (
        TextBlock(text="x", origin="command", system_note="n", signature="s"),
        ThinkingBlock(text="t", signature="s", signature_producer="anthropic"),
        ToolCallBlock(id="a", name="t", input={"n": 1}, signature="s", signature_producer="g"),
        IMAGE,
        REF,
        ToolResultBlock(call_id="a", output=(IMAGE,), is_error=True, duration_ms=3),
    )
    packed = CONTENT.dump_python(blocks, mode="json", exclude_defaults=True)
    assert CONTENT.validate_python(packed) == blocks


@pytest.mark.parametrize("fields", [{}, {"data": "QQ==", "ref": "r"}])
def test_an_image_wants_either_data_or_a_ref(fields: dict[str, str]):
    """PART-06."""
    with pytest.raises(ValidationError, match="either data or ref"):
        ImageBlock.model_validate({"media_type": "image/png", **fields})
    with pytest.raises(ValidationError, match="either data or ref"):
        DocumentBlock.model_validate({"media_type": "application/pdf", **fields})


def test_text_of_a_result_shows_attachments_as_markers():
    """PART-09, PART-10."""
    output: ToolOutput = (TextBlock(text="two:"), IMAGE, REF)
    assert tool_result_to_text("plain") == "plain"
    assert tool_result_to_text(output) == (
        "two:\n[image: image/png, 1024 b64 bytes]\n[document: application/pdf, ref doc-1]"
    )


def test_the_wire_size_counts_bytes_of_text_and_base64_characters():
    """PART-12, HOOK-06: a ref costs nothing on the wire."""
    assert tool_output_byte_length("") == 0
    assert tool_output_byte_length("ä€") == 5
    assert tool_output_byte_length((TextBlock(text="ä"), IMAGE, REF)) == 2 + 1024


def test_the_budget_size_counts_attachments_as_their_markers():
    """PART-11."""
    output: ToolOutput = (TextBlock(text="ä"), IMAGE)
    marker = "[image: image/png, 1024 b64 bytes]"
    assert tool_output_budget_byte_length(output) == 2 + 1 + len(marker)
    assert tool_output_budget_byte_length("ä") == 2


@given(anything)
def test_clean_text_is_utf8_and_leaves_clean_text_alone(text: str):
    """K-PAIRING-02."""
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned
    if cleaned != text:
        assert "\ufffd" in cleaned


def test_a_lone_half_becomes_one_replacement_and_a_split_pair_becomes_whole():
    """K-PAIRING-02."""
    assert clean_text("ok \ud83d end") == "ok \ufffd end"
    assert clean_text("\ud83d\ude00") == "😀"
    assert clean_json({"\udca9": ["\udca9", 1, None]}) == {"\ufffd": ["\ufffd", 1, None]}


@given(st.text(max_size=30), st.integers(0, 40))
def test_a_cut_falls_between_characters_and_keeps_as_much_as_fits(text: str, limit: int):
    """K-PAIRING-02."""
    kept = clip_utf8(text, limit)
    assert text.startswith(kept)
    assert len(kept.encode()) <= limit
    if kept != text:
        assert len(text[: len(kept) + 1].encode()) > limit
