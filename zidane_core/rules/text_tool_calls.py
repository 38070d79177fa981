"""Does a text end in a tool call that should have been a real one, and which tool is near a name.

Only the end of a text counts: a model that meant to call stops there, one that explains goes on.
"""

import difflib
import json
import re
from collections.abc import Collection, Sequence
from typing import Any, cast

MAX_TEXT_CHARS = 131_072
"""Of the end of a text that is looked at."""

_ARGUMENT_KEYS = ("arguments", "input", "parameters", "args")
_TAGGED = ("<tool_call>", "<tool_use>", "<function_call>")
_CLOSING = re.compile(r"(?:\s|</(?:tool_calls?|tool_use|function_calls?|function|invoke)>)*\Z")
_NAMED_TAG = re.compile(
    r"""<(?:function=|(?:invoke|function|tool_call|tool_use)\s+name=["'])([^\s"'<>=]{1,128})["']?\s*>"""
)
_LAST_LINE = re.compile(r"([A-Za-z0-9_.-]{1,128})\((.*)\);?")
_FENCE = "```"


def written_call(text: str, names: Collection[str]) -> str | None:
    """Return the tool that the end of a text calls in writing, or None.

    Known forms: `<tool_call>` with JSON or with a named tag in it, `<function=name>` and
    `<invoke name="name">`, a fenced or bare JSON object of a name and its arguments, and
    `name({...})` alone on the last line. The name must be that of a tool; prose that only mentions
    one, and inline code, is none.

    Args:
        text: The turn's text.
        names: Names of the run's tools, shown and canonical.

    Implements: TOOL-13.
    """
    end = text[-MAX_TEXT_CHARS:].rstrip()
    for read in (_from_tags, _from_named_tag, _from_json, _from_last_line):
        name = read(end)
        if name is not None and name in names:
            return name
    return None


def _from_tags(text: str) -> str | None:
    start, tag = max((text.rfind(tag), tag) for tag in _TAGGED)
    if start < 0:
        return None
    return _name_of(text[start + len(tag) :], needs_arguments=False)


def _from_named_tag(text: str) -> str | None:
    """Read a tag that names the tool and is closed at the very end, or not at all."""
    start = max(text.rfind("<function"), text.rfind("<invoke"), text.rfind("<tool_"))
    found = _NAMED_TAG.match(text, start) if start >= 0 else None
    if found is None:
        return None
    rest = text[found.end() :]
    closed = rest.find("</function>"), rest.find("</invoke>"), rest.find("</tool_")
    ends = [place for place in closed if place >= 0]
    is_last = not ends or _CLOSING.match(rest, min(ends)) is not None
    return found[1] if is_last and _is_block(text, start) else None


def _from_json(text: str) -> str | None:
    """Read a fenced object at the end, or a text that is nothing but an object."""
    if text.endswith(_FENCE):
        start = text.rfind(_FENCE, 0, -len(_FENCE))
        if start < 0:
            return None
        inner = text[start + len(_FENCE) : -len(_FENCE)]
        language, _, body = inner.partition("\n")
        return _name_of(body) if language.strip().lower() in ("", "json", "tool_call") else None
    return _name_of(text) if text.lstrip().startswith("{") else None


def _from_last_line(text: str) -> str | None:
    found = _LAST_LINE.fullmatch(text[text.rfind("\n") + 1 :].strip())
    if found is None:
        return None
    return found[1] if _object(found[2]) is not None else None


def _is_block(text: str, start: int) -> bool:
    """Say whether a tag begins a line, or stands in another tag: in running text it is quoted."""
    before = text[:start].rstrip(" \t")
    return not before or before[-1] in "\n>"


def _name_of(text: str, *, needs_arguments: bool = True) -> str | None:
    found = _object(text)
    if found is None:
        return None
    name = found.get("name") or found.get("tool")
    has_arguments = any(key in found for key in _ARGUMENT_KEYS)
    return name if isinstance(name, str) and (has_arguments or not needs_arguments) else None


def _object(text: str) -> dict[str, Any] | None:
    """Read a JSON object with nothing behind it but closing tags."""
    stripped = text.lstrip()
    if not stripped.startswith("{"):
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(stripped)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _CLOSING.match(stripped, end) is None:
        return None
    return cast("dict[str, Any]", value)


def closest_names(called: str, names: Sequence[str], *, limit: int) -> tuple[str, ...]:
    """Return the tools whose names are closest to an unknown one, best first.

    Case, separators and a prefix such as `functions.` do not count.

    Args:
        called: The name that the model wrote.
        names: The shown names, in the order in which the model sees them; ties keep it.
        limit: At most that many; 0 is none.

    Implements: TOOL-12.
    """
    wanted = {_plain(called), _plain(re.split(r"[.:/]", called[-128:])[-1])} - {""}
    scored: list[tuple[float, int, str]] = []
    for place, name in enumerate(names):
        plain = _plain(name)
        score = max((_likeness(one, plain) for one in sorted(wanted)), default=0.0)
        if score >= 0.6:
            scored.append((-score, place, name))
    return tuple(name for _, _, name in sorted(scored)[: max(0, limit)])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name[-128:].lower())


def _likeness(one: str, other: str) -> float:
    if one == other:
        return 1.0
    contained = min(len(one), len(other)) >= 4 and (one in other or other in one)
    return max(0.8 if contained else 0.0, difflib.SequenceMatcher(None, one, other).ratio())
