import time

import pytest

from zidane_core.call_facts import CallFacts
from zidane_core.loop_options import NamedCallable, RepeatGuard, ToolMatcher
from zidane_core.rules.normalizing import (
    MAX_COMMAND_CHARS,
    guarded_tools,
    matches,
    normalized_command,
    normalized_input,
    with_keys,
)
from zidane_core.rules.text_tool_calls import closest_names, written_call
from zidane_core.values import Json


@pytest.mark.parametrize(
    ("command", "normal"),
    [
        ("ls", "ls"),
        ("  ls   -la\tsrc ", "ls src"),
        ("cd /tmp && ls", "ls"),
        ("cd '/a b' && cd \"c d\" && ls -l", "ls"),
        ("cd /tmp; ls", "cd /tmp; ls"),
        ("cd /tmp", "cd /tmp"),
        ("make & sleep 5 ; cat log", "make"),
        ("make & sleep 0.5s; cat log", "make"),
        ("make & sleep 5", "make"),
        ("make && sleep 5 ; cat log", "make && sleep 5 ; cat log"),
        ("sleep 5 ; cat log", "sleep 5 ; cat log"),
        ("& sleep 5 ; x", "& sleep 5 ; x"),
        ("grep -rn x src", "grep x src"),
        ("grep --color x", "grep --color x"),
        ("tail -50 log", "tail -50 log"),
        ("head -n 5 log", "head 5 log"),
        ("git commit -m '-x  y'", "git commit '-x  y'"),
        ("-x", "-x"),
        ("echo 'open -x", "echo 'open -x"),
        ("ls # -x", "ls #"),
        ("", ""),
    ],
)
def test_a_command_is_compared_without_what_changes_nothing(command: str, normal: str):
    """GUARD-07."""
    assert normalized_command(command) == normal


@pytest.mark.parametrize(
    "command",
    [
        "cd " * 5_000,
        "cd a && " * 2_000,
        "& " * 8_000,
        " " * 16_000 + "x",
        "&sleep" * 2_000,
        "'" * 16_383,
        "x" * (MAX_COMMAND_CHARS + 1),
    ],
)
def test_no_command_takes_long(command: str):
    """GUARD-07: by the processor's time, as the machine may be busy."""
    start = time.process_time()
    normalized_command(command)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("tool", ["shell", "bash", "mcp_host_shell"])
def test_a_shell_like_tool_is_compared_by_its_command(tool: str):
    """GUARD-07."""
    one = normalized_input(tool, {"command": "cd /a && ls -l", "timeout": 5})
    assert one == normalized_input(tool, {"timeout": 9, "command": "ls"})
    assert one != normalized_input(tool, {"command": "ls", "run_in_background": True})
    assert one != normalized_input(tool, {"command": "pwd"})


def test_all_else_is_compared_as_json_with_sorted_keys():
    """GUARD-07."""
    assert normalized_input("grep", {"b": 1, "a": [1, "ü"]}) == '{"a":[1,"ü"],"b":1}'
    assert normalized_input("grep", {"command": "ls -l"}) == '{"command":"ls -l"}'
    assert normalized_input("shell", {"command": ["ls"]}) == '{"command":["ls"]}'


@pytest.mark.parametrize(
    ("matchers", "name", "found"),
    [
        (("shell",), "shell", True),
        (("shell",), "shells", False),
        (("a", "b"), "b", True),
        (("*",), "anything", True),
        ((), "shell", False),
        ((NamedCallable(callable="yes"),), "x", True),
        ((NamedCallable(callable="no"), "x"), "x", True),
        ((NamedCallable(callable="no"),), "x", False),
        ((NamedCallable(callable="gone"),), "x", False),
        (("yes",), "x", False),
    ],
)
def test_tools_are_named_exactly_or_chosen_by_a_predicate(
    matchers: tuple[ToolMatcher, ...], name: str, found: bool
):
    """GUARD-06."""
    assert matches(matchers, name, {"yes": True, "no": False}) is found


def test_shell_and_read_file_are_watched_unless_tools_are_listed():
    """GUARD-06."""
    assert guarded_tools(RepeatGuard()) == ("shell", "read_file")
    assert guarded_tools(RepeatGuard(tools=())) == ()
    assert guarded_tools(RepeatGuard(tools=("x",))) == ("x",)


def keys(
    guard: RepeatGuard | None,
    arguments: Json | str,
    facts: CallFacts | None = None,
    *,
    watched: bool = True,
    normalized: str | None = "n",
) -> tuple[str, str | None]:
    made = with_keys(
        facts or CallFacts(), guard, "t", arguments, is_watched=watched, normalized=normalized
    )
    return made.exact_key, made.guard_key


def test_without_a_guard_a_call_has_no_keys():
    """GUARD-01: it takes no room in history."""
    assert keys(None, {}) == ("", None)


def test_the_keys_are_short_and_apart():
    """GUARD-07, GUARD-10."""
    exact, key = keys(RepeatGuard(), {"a": 1})
    assert len(exact) == len(key or "") == 16
    assert exact != key
    assert keys(RepeatGuard(), {"a": 2}) != (exact, key)
    assert keys(RepeatGuard(), {"a": 2})[1] == key


@pytest.mark.parametrize(("watched", "normalized"), [(False, "n"), (True, None)])
def test_a_call_that_is_not_watched_has_an_exact_key_only(watched: bool, normalized: str | None):
    """GUARD-06, GUARD-07: the ceiling still sees it."""
    exact, key = keys(RepeatGuard(), {}, watched=watched, normalized=normalized)
    assert (bool(exact), key) == (True, None)


def test_calls_that_cannot_run_are_watched_when_asked_for():
    """K-REPEAT-04."""
    guard = RepeatGuard(count_invalid=True)
    invalid, unknown = CallFacts(is_invalid=True), CallFacts(is_unknown=True)
    broken = [keys(guard, text, invalid, watched=False)[1] for text in ('{"a":', '{"a":1')]
    assert broken[0] == broken[1] is not None
    empty = [keys(guard, one, invalid, watched=False)[1] for one in ({}, {"a": 1})]
    assert empty[0] != empty[1]
    named = [keys(guard, one, unknown, watched=False)[1] for one in ({}, {"a": 1})]
    assert named[0] == named[1] is not None
    assert keys(RepeatGuard(), {}, unknown, watched=False)[1] is None


NAMES = ("shell", "read_file", "mcp_gh_search")


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ('<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>', "shell"),
        ('I look.\n<tool_call>{"name": "shell"}</tool_call>  \n', "shell"),
        ('<tool_call>{"name": "shell", "arguments": {"a": "x\ny"}}', "shell"),
        ("<function=shell>\n<parameter=command>ls</parameter>\n</function>\n</tool_call>", "shell"),
        ('<tool_call>\n<function=read_file>{"path": "a"}</function>\n</tool_call>', "read_file"),
        ('<function=shell>{"command": "ls"}', "shell"),
        (
            '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n'
            "</invoke>\n</function_calls>",
            "read_file",
        ),
        ('```json\n{"name": "shell", "arguments": {"command": "ls"}}\n```', "shell"),
        ('Now:\n```\n{"tool": "shell", "input": {}}\n```\n', "shell"),
        ('```JSON\n{"name": "shell", "parameters": {}}```', "shell"),
        ('{"name": "mcp_gh_search", "arguments": {"q": "x"}}', "mcp_gh_search"),
        ('Let me see.\nread_file({"path": "a.py"})', "read_file"),
        ('read_file({"path": "a.py"});', "read_file"),
        ("shell({})", "shell"),
    ],
)
def test_a_text_that_ends_in_a_call_is_seen(text: str, tool: str):
    """TOOL-13."""
    assert written_call(text, NAMES) == tool


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I used read_file to look at it.",
        "Call `shell({})` to see it.",
        "You may call read_file(path) for that.\nread_file(path)",
        'Use read_file({"path": "a"}) next.',
        'read_file({"path": "a"})\nThat was the call.',
        '<tool_call>{"name": "shell", "arguments": {}}</tool_call>\nThat is what it looks like.',
        'The form is `<tool_call>{"name": "shell"}</tool_call>`.',
        "The model writes <function=shell> and its arguments.",
        'Put the name into <invoke name="shell">',
        "<function=shell>x</function> is how it begins.",
        '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
        "<tool_call>not json</tool_call>",
        "<function=other>",
        'An example:\n```json\n{"name": "shell", "arguments": {}}\n```\nas you see.',
        '```json\n{"name": "shell", "version": "1.0"}\n```',
        '```python\n{"name": "shell", "arguments": {}}\n```',
        '```json\n{"name": "shell", "arguments": {}\n```',
        '```json\n[{"name": "shell", "arguments": {}}]\n```',
        '{"name": "shell", "colour": "red"}',
        '{"name": ["shell"], "arguments": {}}',
        "shell({})({})",
        "shell({'a': 1})",
        "shell()",
        "```",
        "``````",
        "<tool_call>",
        "{" * 100_000,
        "```json\n" + "[" * 100_000 + "\n```",
    ],
)
def test_prose_examples_and_broken_forms_are_no_calls(text: str):
    """TOOL-13."""
    assert written_call(text, NAMES) is None


@pytest.mark.parametrize(
    "text",
    ["</tool_call>" * 20_000 + "x", "<function=" * 20_000, "shell(" * 30_000, "\n" * 200_000],
)
def test_no_text_takes_long(text: str):
    """TOOL-13: by the processor's time, as the machine may be busy."""
    start = time.process_time()
    written_call(text, NAMES)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ("functions.read", ("read_file",)),
        ("ReadFile", ("read_file",)),
        ("read-file", ("read_file",)),
        ("default_api:shell", ("shell",)),
        ("shel", ("shell",)),
        ("search", ("mcp_gh_search",)),
        ("zap", ()),
        ("", ()),
        ("...", ()),
        ("x" * 10_000, ()),
    ],
)
def test_the_closest_tools_are_named(called: str, expected: tuple[str, ...]):
    """TOOL-12."""
    assert closest_names(called, NAMES, limit=3) == expected


def test_the_best_comes_first_and_ties_keep_the_models_order():
    """TOOL-12."""
    names = ("read_dir", "read_files", "read_file", "readfile")
    assert closest_names("readfile", names, limit=3) == ("read_file", "readfile", "read_files")
    assert closest_names("readfile", names, limit=0) == ()
