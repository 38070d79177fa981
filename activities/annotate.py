"""What the loop is told of a tool call, so that it needs no content to decide."""

import json

from zidane_core.content import ToolCallBlock, clip_utf8
from zidane_core.manifest import RunManifest
from zidane_core.receipts import CallNote
from zidane_core.tools import DEFAULT_TOOL_TIMEOUT_MS

MAX_TITLE_CHARS = 80
MAX_QUESTION_BYTES = 512
_TELLING_ARGUMENTS = ("path", "command", "pattern", "url", "query", "task", "question")


def annotate(call: ToolCallBlock, manifest: RunManifest) -> CallNote:
    """Return the note for one call; an unknown tool runs as a plain activity that says so."""
    spec = manifest.tool(call.name)
    if spec is None:
        return CallNote(id=call.id, name=call.name[:64], title=call.name[:MAX_TITLE_CHARS])
    return CallNote(
        id=call.id,
        name=spec.name,
        is_safe=spec.concurrency_safe,
        place=spec.placement if call.invalid is None else "activity",
        title=_question(call) if spec.asks_person else call_title(call),
        timeout_ms=None if spec.timeout_ms == DEFAULT_TOOL_TIMEOUT_MS else spec.timeout_ms,
    )


def call_title(call: ToolCallBlock) -> str:
    """Return one line that names the tool and its main argument, at most 80 characters."""
    main = next(
        (call.input[name] for name in _TELLING_ARGUMENTS if name in call.input),
        next(iter(call.input.values()), None),
    )
    if main is None:
        return call.name[:MAX_TITLE_CHARS]
    shown = main if isinstance(main, str) else json.dumps(main, ensure_ascii=False)
    line = f"{call.name} {' '.join(shown.split())}"
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


def _question(call: ToolCallBlock) -> str:
    question = call.input.get("question")
    text = question if isinstance(question, str) else json.dumps(call.input, ensure_ascii=False)
    return clip_utf8(text, MAX_QUESTION_BYTES)
