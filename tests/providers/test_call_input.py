import re

import pytest

from activities.providers.call_input import (
    call_block,
    cut_off,
    read_arguments,
    wire_names,
    with_unique_ids,
)
from tests.support.model_requests import assistant, call, model_request, tool_spec, user
from zidane_core.content import TextBlock, ToolCallBlock
from zidane_core.values import Json


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"content": "[1,2]"}', {"content": "[1,2]"}),
    ],
)
def test_readable_arguments_are_an_object(raw: str, expected: Json) -> None:
    """K-OPENAI-08, K-OPENAI-09: strings inside stay strings."""
    assert read_arguments(raw) == (expected, None)


@pytest.mark.parametrize(
    "raw",
    ['{"path":', "null", "[1]", '"x"', "7", '{"a": NaN}', '{"a":1}{"b":2}', '{"a":' * 40_000],
)
def test_unreadable_arguments_give_a_reason_with_a_short_preview(raw: str) -> None:
    """K-OPENAI-09."""
    arguments, invalid = read_arguments(raw)
    assert arguments == {}
    assert invalid is not None
    assert raw[:200] in invalid
    assert len(invalid) < 400


def test_half_a_surrogate_pair_is_replaced() -> None:
    """K-PAIRING-02."""
    arguments, invalid = read_arguments('{"content": "ok \\ud83d end"}')
    assert (arguments, invalid) == ({"content": "ok \ufffd end"}, None)


def test_a_name_becomes_canonical_and_an_unknown_one_stays() -> None:
    """TOOL-05, TOOL-12."""
    tools = (tool_spec("read_file", alias="Read"),)
    assert call_block("c", "Read", "", tools).name == "read_file"
    assert call_block("c", "nope", "", tools).name == "nope"


def test_a_cut_call_loses_its_arguments_and_says_why() -> None:
    """K-ANTHROPIC-04."""
    cut = cut_off(call("c", "write_file", path="p"), '{"path": "p"}')
    assert cut.input == {}
    assert cut.invalid is not None
    assert "smaller pieces" in cut.invalid
    assert '{"path": "p"}' in cut.invalid


def _ids(*ids: str, turn: int = 3, seen: tuple[str, ...] = ()) -> list[str]:
    history = (user("hi"), assistant(*(call(i, "shell") for i in seen))) if seen else (user("hi"),)
    blocks = [call(call_id, "shell") for call_id in ids]
    unique = with_unique_ids(blocks, model_request(*history, assistant_turns=turn))
    return [block.id for block in unique if isinstance(block, ToolCallBlock)]


def test_ids_that_are_random_stay() -> None:
    assert _ids("toolu_01AbCdEf", "call_x9Yz") == ["toolu_01AbCdEf", "call_x9Yz"]


def test_ids_that_servers_number_per_turn_get_the_turn() -> None:
    """K-OPENAI-05."""
    assert _ids("shell:0", "call_1", "0") == ["shell:0_t3", "call_1_t3", "0_t3"]


def test_an_id_that_was_seen_before_gets_the_turn() -> None:
    """K-OPENAI-05: one constant id for all calls."""
    assert _ids("constant", seen=("constant",)) == ["constant_t3"]


def test_ids_shared_or_empty_within_a_turn_become_distinct() -> None:
    """K-OPENAI-06."""
    assert _ids("same", "same", "same") == ["same", "same_t3", "same_t3_1"]
    assert _ids("", "") == ["call_t3", "call_t3_1"]


def test_other_blocks_keep_their_place() -> None:
    blocks = (TextBlock(text="a"), call("", "shell"), TextBlock(text="b"))
    unique = with_unique_ids(blocks, model_request(assistant_turns=0))
    assert unique == (TextBlock(text="a"), call("call_t0", "shell"), TextBlock(text="b"))


def test_names_on_the_wire_are_legal_distinct_and_the_same_each_time() -> None:
    """TOOL-05: a legal name is never changed, whatever stands beside it."""
    aliases = ("a.b", "a_b", "a b", "", "x" * 70 + "1", "x" * 70 + "2")
    tools = tuple(tool_spec(f"t{at}", alias=alias) for at, alias in enumerate(aliases))
    names = wire_names(tools)
    assert dict(names) == dict(wire_names(tools))
    assert names["t1"] == "a_b"
    assert len(set(names.values())) == len(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names.values())
    assert [call_block("c", names[tool.name], "", tools).name for tool in tools] == [*names]
