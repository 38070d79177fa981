"""Lazy tools: which are listed, found, called and refused."""

import json

import pytest

from tests.support.wire_messages import answer, user
from zidane_core.content import ToolCallBlock
from zidane_core.context.disclosure import (
    CALL_TOOL,
    TOOL_SEARCH,
    Disclosure,
    ToolShelf,
    is_lazy,
)
from zidane_core.context_options import ToolDisclosure, ToolSearch
from zidane_core.tools import ToolSpec
from zidane_core.values import Json


def spec(name: str, description: str = "", alias: str | None = None) -> ToolSpec:
    schema: Json = {"type": "object", "properties": {"x": {"type": "string"}}}
    return ToolSpec(name=name, description=description, input_schema=schema, alias=alias)


SHELL = spec("shell", "Run a command")
PAGE = spec("mcp_notion_get_page", "Read a page of the wiki")
FIND = spec("mcp_notion_search", "Find pages by\n  words", alias="FindPages")
MAIL = spec("mcp_mail_send", "Send a mail to people")
LAZY = {PAGE.name, FIND.name, MAIL.name}


def shelf(*extra: ToolSpec, codemode: bool = False, **options: object) -> ToolShelf:
    chosen = ToolSearch.model_validate(options)
    return ToolShelf.of((PAGE, SHELL, FIND, MAIL, *extra), LAZY, chosen, codemode=codemode)


def names(tools: tuple[ToolSpec, ...]) -> list[str]:
    return [tool.name for tool in tools]


def wrap(**fields: object) -> ToolCallBlock:
    return ToolCallBlock.model_validate({"id": "c", "name": CALL_TOOL, "input": fields})


@pytest.mark.parametrize(
    ("agent", "server", "lazy"),
    [
        ("eager", None, False),
        ("lazy", None, True),
        ("lazy", "eager", False),
        ("eager", "lazy", True),
    ],
)
def test_a_servers_own_setting_wins(
    agent: ToolDisclosure, server: ToolDisclosure | None, lazy: bool
):
    """DISC-01, DISC-08."""
    assert is_lazy(agent, server) is lazy


def test_the_defaults_are_dispatch_and_twenty_tools():
    """DISC-03."""
    options = ToolSearch()
    assert (options.limit, options.mode, options.tool, options.catalog) == (20, None, None, None)
    assert shelf().mode == "dispatch"
    many = [spec(f"mcp_t{number}") for number in range(30)]
    wide = ToolShelf.of(many, {tool.name for tool in many})
    assert len(wide.search("")) == 20
    assert len(wide.search("", 5)) == 5
    assert len(wide.search("", 0)) == 1


def test_without_lazy_tools_nothing_is_added():
    """DISC-01, DISC-03."""
    eager = ToolShelf.of((SHELL, PAGE), ())
    assert eager.wire_tools(Disclosure()) == (SHELL, PAGE)
    assert eager.catalog() == ""
    assert eager.refusal(PAGE.name, Disclosure()) is None
    call = wrap(name="shell", arguments={})
    assert eager.unwrapped(call) is call


def test_in_dispatch_mode_the_tools_never_change():
    """DISC-05."""
    before = shelf().wire_tools(Disclosure())
    after = shelf().wire_tools(Disclosure().surface([MAIL.name, PAGE.name]))
    assert names(before) == ["shell", TOOL_SEARCH, CALL_TOOL]
    assert [t.packed() for t in after] == [t.packed() for t in before]


def test_in_unlock_mode_found_tools_join_the_tail_in_the_order_of_their_finding():
    """DISC-04, DISC-02."""
    lazy = shelf(mode="unlock")
    state = Disclosure().surface([MAIL.name]).surface([PAGE.name, MAIL.name])
    assert state.surfaced == (MAIL.name, PAGE.name)
    assert names(lazy.wire_tools(Disclosure())) == ["shell", TOOL_SEARCH]
    assert names(lazy.wire_tools(state)) == ["shell", TOOL_SEARCH, MAIL.name, PAGE.name]
    assert lazy.wire_tools(state)[: len(lazy.wire_tools(Disclosure()))] == lazy.wire_tools(
        Disclosure()
    )


def test_the_state_survives_the_journal():
    """DISC-02."""
    state = Disclosure().surface([MAIL.name])
    assert Disclosure.unpacked(json.loads(json.dumps(state.packed()))) == state
    assert Disclosure.unpacked({}) == Disclosure()


def test_the_catalogue_lists_names_and_descriptions_but_no_schema():
    """DISC-02, DISC-09."""
    assert shelf().catalog() == (
        "Call tool_search for the schemas of these tools before their first use, then call them "
        "with call_tool.\n"
        "- mcp_notion_get_page: Read a page of the wiki\n"
        "- FindPages: Find pages by words\n"
        "- mcp_mail_send: Send a mail to people"
    )
    assert shelf(mode="unlock").catalog().splitlines()[0].endswith("then call them.")


def test_the_catalogue_may_hold_names_only_as_it_does_under_codemode():
    """DISC-09."""
    listed = ["- mcp_notion_get_page", "- FindPages", "- mcp_mail_send"]
    assert shelf(catalog="names").catalog().splitlines()[1:] == listed
    assert shelf(codemode=True).catalog().splitlines()[1:] == listed
    assert shelf(codemode=True, catalog="full").catalog() == shelf().catalog()


def test_a_host_may_opt_out_of_the_search_tool():
    """DISC-03: no injection, no text that asks for a call."""
    bare = shelf(tool=False)
    assert names(bare.wire_tools(Disclosure())) == ["shell"]
    assert bare.catalog().splitlines()[0] == "- mcp_notion_get_page: Read a page of the wiki"
    assert "tool_search" not in str(bare.refusal(PAGE.name, Disclosure()))


def test_a_hosts_own_search_tool_shadows_the_built_in_one():
    """DISC-07."""
    own = spec(TOOL_SEARCH, "Ours", alias="Discover")
    lazy = shelf(own)
    assert names(lazy.wire_tools(Disclosure())) == ["shell", TOOL_SEARCH, CALL_TOOL]
    assert lazy.wire_tools(Disclosure())[1] is own
    assert lazy.catalog().startswith("Call Discover for")
    assert lazy.search_name == "Discover"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("mcp_mail_send", [MAIL]),
        ("FindPages", [FIND]),
        ("mail", [MAIL]),
        ("wiki", [PAGE]),
        ("page", [PAGE, FIND]),
        ("notion search", [FIND, PAGE]),
        ("people, please", [MAIL]),
        ("nothing like it", []),
        ("", [PAGE, FIND, MAIL]),
    ],
)
def test_search_ranks_names_before_words_in_names_before_descriptions(
    query: str, found: list[ToolSpec]
):
    """DISC-02, DISC-03."""
    hits = shelf().search(query)
    assert hits[: len(found)] == tuple(found)
    if found != [MAIL] or query != "mcp_mail_send":
        assert len(hits) == len(found)


def test_eager_tools_are_never_found():
    assert shelf().search("shell") == ()


def test_a_search_result_holds_the_schemas_and_how_to_call():
    """DISC-05, DISC-04."""
    text = shelf().found_text((FIND,))
    shown, how = text.rsplit("\n", 1)
    assert json.loads(shown)[0] == {
        "name": "FindPages",
        "description": FIND.description,
        "input_schema": FIND.input_schema,
    }
    assert how == 'Call one with call_tool, as in {"name": "FindPages", "arguments": {...}}.'
    assert "next turn" in shelf(mode="unlock").found_text((FIND,))
    assert "Try other words" in shelf().found_text(())


def test_a_lazy_tool_that_was_not_found_is_refused():
    """DISC-06."""
    lazy, found = shelf(), Disclosure(surfaced=(FIND.name,))
    assert lazy.refusal(MAIL.name, found) == (
        "Tool 'mcp_mail_send' was not looked up yet. Call tool_search for its schema first."
    )
    assert lazy.refusal("FindPages", Disclosure()) is not None
    assert lazy.refusal("FindPages", found) is None
    assert lazy.refusal("shell", Disclosure()) is None
    assert lazy.refusal("no_such_tool", Disclosure()) is None


@pytest.mark.parametrize(
    ("fields", "name", "arguments"),
    [
        ({"name": MAIL.name, "arguments": {"x": "1"}}, MAIL.name, {"x": "1"}),
        ({"name": "FindPages", "arguments": {}}, FIND.name, {}),
        ({"name": MAIL.name, "arguments": '{"x": "1"}'}, MAIL.name, {"x": "1"}),
        ({"name": MAIL.name}, MAIL.name, {}),
        ({"name": "shell", "arguments": {}}, "shell", {}),
        ({"name": "no_such_tool", "arguments": {}}, "no_such_tool", {}),
    ],
)
def test_everybody_but_the_model_sees_the_inner_call(fields: Json, name: str, arguments: Json):
    """DISC-05."""
    inner = shelf().unwrapped(wrap(**fields))
    assert (inner.id, inner.name, inner.input, inner.invalid) == ("c", name, arguments, None)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, CALL_TOOL),
        ({"name": 3}, CALL_TOOL),
        ({"name": CALL_TOOL, "arguments": {}}, CALL_TOOL),
        ({"name": MAIL.name, "arguments": "{"}, MAIL.name),
        ({"name": MAIL.name, "arguments": [1]}, MAIL.name),
    ],
)
def test_an_envelope_that_makes_no_sense_is_an_invalid_call(fields: Json, name: str):
    """DISC-05."""
    inner = shelf().unwrapped(wrap(**fields))
    assert inner.name == name
    assert inner.invalid is not None


def test_other_calls_are_left_as_they_are():
    """DISC-05: in unlock mode call_tool is nothing special."""
    plain = ToolCallBlock(id="c", name="shell", input={})
    assert shelf().unwrapped(plain) is plain
    envelope = wrap(name=MAIL.name, arguments={})
    assert shelf(mode="unlock").unwrapped(envelope) is envelope


def test_a_request_repeats_calls_as_the_model_made_them():
    """DISC-05: turns hold the inner call, the wire what the tools declare."""
    lazy = shelf()
    made = wrap(name="FindPages", arguments={"x": "1"})
    plain = ToolCallBlock(id="d", name="shell", input={})
    stored = (user("go"), answer("so", lazy.unwrapped(made), plain))
    assert lazy.rewrapped(stored) == (user("go"), answer("so", made, plain))
    assert lazy.rewrapped(stored[:1]) == stored[:1]
    assert shelf(mode="unlock").rewrapped(stored) is stored
    untouched = (user("go"), answer(plain))
    assert lazy.rewrapped(untouched) is untouched
