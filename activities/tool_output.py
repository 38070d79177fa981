"""Bounds a tool's output: what is too long for the model keeps its head and tail."""

from activities.store import Store
from zidane_core.content import TextBlock, ToolOutput, clip_utf8

MAX_OUTPUT_BYTES = 131_072
"""Text of one result that the model may see; the whole is kept in the store past that."""
HEAD_BYTES = MAX_OUTPUT_BYTES // 2
TAIL_BYTES = MAX_OUTPUT_BYTES // 2
MAX_KEPT_BYTES = 16_777_216
"""Largest text that is kept whole."""


async def bounded_output(store: Store, output: ToolOutput, *, tool: str) -> ToolOutput:
    """Return the output with every text of at most 128 KiB, cut between characters.

    Implements: K-TEMPORAL-01, K-PAIRING-02.
    """
    if isinstance(output, str):
        return await _bounded_text(store, output, tool=tool)
    blocks = [
        block.model_copy(update={"text": await _bounded_text(store, block.text, tool=tool)})
        if isinstance(block, TextBlock)
        else block
        for block in output
    ]
    return tuple(blocks)


async def _bounded_text(store: Store, text: str, *, tool: str) -> str:
    # A character has at most four bytes, so most texts need no encoding to be known short.
    if len(text) * 4 <= MAX_OUTPUT_BYTES:
        return text
    raw = text.encode("utf-8")
    if len(raw) <= MAX_OUTPUT_BYTES:
        return text
    where = "not kept: it is over 16 MiB"
    if len(raw) <= MAX_KEPT_BYTES:
        where = f"kept in the session store as blob {await store.put_blob(raw)}"
    head = clip_utf8(text, HEAD_BYTES)
    tail = raw[-TAIL_BYTES:].decode("utf-8", "ignore")
    left_out = len(raw) - len(head.encode()) - len(tail.encode())
    return (
        f"{head}\n<output-truncated>{left_out} of {len(raw)} bytes of {tool} left out here; the "
        f"whole is {where}. Ask for less at a time.</output-truncated>\n{tail}"
    )
