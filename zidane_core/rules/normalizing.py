"""The keys by which calls count as equal, and the text that a shell command is compared by."""

import json
import re
import shlex
from collections.abc import Mapping

from pydantic import JsonValue

from zidane_core.call_facts import CallFacts, short_hash
from zidane_core.loop_options import EVERY_TOOL, RepeatGuard, ToolMatcher
from zidane_core.values import Json

DEFAULT_GUARDED_TOOLS: tuple[ToolMatcher, ...] = ("shell", "read_file")

MAX_COMMAND_CHARS = 16_384
"""Longer commands are compared as they are."""

_LEADING_CD = re.compile(r"\s*cd\s+(?:'[^']*'|\"[^\"]*\"|[^\s;&|]+)\s*&&\s*")
_SLEEP_TAIL = re.compile(r"(?<!&)&\s*sleep\s+[0-9][0-9.]*[smhd]?\s*(?:;|$)")
_SHORT_FLAG = re.compile(r"-[A-Za-z]{1,3}")
# Not digits: `tail -50` and `tail -500` show different things.
_SHELL_NAMES = frozenset({"shell", "bash", "sh", "exec", "run_command", "terminal"})


def matches(
    matchers: tuple[ToolMatcher, ...], name: str, answers: Mapping[str, bool] | None = None
) -> bool:
    """Say whether a canonical name is among the matchers.

    Args:
        matchers: Exact names, `*`, or predicates.
        name: Canonical name.
        answers: What each predicate said of the name, by the callable's name; a predicate that
            is not in it does not match.

    Implements: GUARD-06.
    """
    said = answers or {}
    return any(
        matcher in (name, EVERY_TOOL)
        if isinstance(matcher, str)
        else said.get(matcher.callable, False)
        for matcher in matchers
    )


def guarded_tools(guard: RepeatGuard) -> tuple[ToolMatcher, ...]:
    """Return the tools that the guard watches: unset is `shell` and `read_file` (GUARD-06)."""
    return DEFAULT_GUARDED_TOOLS if guard.tools is None else guard.tools


def normalized_input(name: str, arguments: Mapping[str, JsonValue]) -> str:
    """Return the built-in text by which calls of a tool are compared.

    A tool is shell-like when its name, or the last word of it, is that of a shell and `command`
    is text. Commands lose what changes nothing about them, and their time limit does not count;
    all else is JSON with sorted keys.

    Implements: GUARD-07.
    """
    command = arguments.get("command")
    is_shell = name in _SHELL_NAMES or name.rpartition("_")[2] in _SHELL_NAMES
    if not is_shell or not isinstance(command, str):
        return canonical_json(dict(arguments))
    rest = {key: value for key, value in arguments.items() if key != "command"}
    told = {key: value for key, value in rest.items() if key not in ("timeout", "timeout_ms")}
    return canonical_json({**told, "command": normalized_command(command)})


def normalized_command(command: str) -> str:
    """Return a shell command without leading `cd <dir> &&`, `& sleep N ; <cmd>` tail, short flags.

    Blanks between words become one, quotes are kept. Flags are kept where they could be data:
    in quotes, and in a command whose quotes do not pair.

    Implements: GUARD-07.
    """
    if len(command) > MAX_COMMAND_CHARS:
        return command
    text = command.strip()
    while found := _LEADING_CD.match(text):
        text = text[found.end() :]
    tail = _SLEEP_TAIL.search(text)
    if tail is not None and text[: tail.start()].strip():
        text = text[: tail.start()]
    words = _words(text)
    if words is None:
        return text.strip()
    kept = [word for word in words if _SHORT_FLAG.fullmatch(word) is None]
    return " ".join(kept or words)


def _words(text: str) -> list[str] | None:
    lexer = shlex.shlex(text, posix=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:
        return None


def canonical_json(value: JsonValue) -> str:
    """Return JSON that is the same for equal values: sorted keys, no blanks."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def with_keys(
    facts: CallFacts,
    guard: RepeatGuard | None,
    name: str,
    arguments: Json | str,
    *,
    is_watched: bool,
    normalized: str | None,
) -> CallFacts:
    """Return the facts of a call with the keys that the guard compares.

    With `count_invalid` a call that cannot run is watched whatever its tool, and one whose
    arguments are no JSON, or whose tool there is not, equals every other such call of that name:
    what it says has no meaning.

    Args:
        facts: The call's flags; the keys are filled in.
        guard: None is off: no keys.
        name: Canonical name, or the unknown one that the model wrote.
        arguments: The input, or the raw text when it is no JSON.
        is_watched: Whether the tool is one of `guarded_tools`; see `matches`.
        normalized: What `normalized_input` or the author's `normalize` made of the input; None
            leaves the call out.

    Implements: GUARD-07, K-REPEAT-04.
    """
    if guard is None:
        return facts
    raw = arguments if isinstance(arguments, str) else canonical_json(arguments)
    exact = short_hash("exact", name, raw)
    key = short_hash("guard", name, normalized) if is_watched and normalized is not None else None
    if guard.count_invalid and (facts.is_unknown or facts.is_invalid):
        senseless = facts.is_unknown or isinstance(arguments, str)
        key = short_hash("invalid", name, "" if senseless else raw)
    return facts.model_copy(update={"exact_key": exact, "guard_key": key})


def dedup_key(name: str, answer: object) -> str | None:
    """Return the key of what a tool's hasher said; None, empty and what is no text are none.

    Implements: DEDUP-02, DEDUP-07.
    """
    return short_hash("dedup", name, answer) if isinstance(answer, str) and answer else None
