from typing import Any, Literal

import pytest
from pydantic import BaseModel

from zidane_core import Agent, AgentBehavior, ToolContext, tool
from zidane_core.errors import InvalidRequestError
from zidane_core.manifest import RunManifest


class Place(BaseModel):
    city: str


@tool(concurrency_safe=True, idempotent=True, timeout_ms=5)
async def visit(ctx: ToolContext, place: Place, days: int = 3, how: Literal["a", "b"] = "a") -> str:
    """Visit a place.

    More words.
    """
    return f"{ctx.tool} {place.city} {days} {how}"


@tool
def plain(text: str) -> str:
    return text


def test_docstring_and_signature_make_the_spec():
    """TOOL-01: the context is no argument."""
    spec = visit.spec
    assert (spec.name, spec.description) == ("visit", "Visit a place.\n\nMore words.")
    schema: Any = spec.input_schema
    assert list(schema["properties"]) == ["place", "days", "how"]
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    assert (schema["properties"]["days"]["type"], schema["properties"]["days"]["default"]) == (
        "integer",
        3,
    )
    assert (spec.concurrency_safe, spec.idempotent, spec.timeout_ms) == (True, True, 5)


def test_a_tool_is_unsafe_and_not_repeatable_by_default():
    """TOOL-01, DUR-02."""
    spec = plain.spec
    assert (spec.concurrency_safe, spec.repeatable, spec.placement) == (False, False, "activity")


def test_a_tool_can_still_be_called_as_a_function():
    assert plain("x") == "x"


def test_a_given_schema_is_used_as_it_is():
    schema: Any = {"type": "object", "properties": {"x": {"type": "integer"}}}

    @tool(name="other", description="D", input_schema=schema)
    def anything(**arguments: int) -> str:
        return str(arguments)

    assert (anything.spec.name, anything.spec.input_schema) == ("other", schema)


def test_arguments_without_names_are_refused():
    with pytest.raises(InvalidRequestError, match=r"'bad'.*\*rest"):

        @tool
        def bad(*rest: int) -> str:
            return str(rest)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(InvalidRequestError, match="two tools named 'plain'"):
        Agent("a", tools=[plain, plain])


def test_an_alias_is_shown_and_the_canonical_name_stays():
    """TOOL-05."""
    agent = Agent("a", tools=[plain], tool_aliases={"plain": "say"})
    spec = agent.tools["plain"].spec
    assert (spec.name, spec.shown_name) == ("plain", "say")
    assert plain.spec.shown_name == "plain"


@pytest.mark.parametrize(
    ("aliases", "says"),
    [({"plane": "x"}, "unknown tool 'plane'"), ({"plain": "visit"}, "shows two tools as 'visit'")],
)
def test_wrong_aliases_are_refused(aliases: dict[str, str], says: str):
    """TOOL-05."""
    with pytest.raises(InvalidRequestError, match=says):
        Agent("a", tools=[plain, visit], tool_aliases=aliases)


def test_an_unknown_hook_is_refused_with_the_nearest():
    """RUN-07."""
    with pytest.raises(InvalidRequestError, match=r"Did you mean 'tool:before'\?"):
        Agent("a", hooks={"tool:befor": print})
    agent = Agent("a")
    with pytest.raises(InvalidRequestError, match="Unknown hook"):
        agent.on("nope", print)


def one(_: object) -> None: ...


def two(_: object) -> None: ...


def test_handlers_keep_the_order_in_which_they_were_added():
    """HOOK-01."""
    agent = Agent("a", hooks={"tool:after": [one, two]})
    agent.on("tool:after", one)
    assert agent.hooks["tool:after"] == (one, two, one)


def manifest(**changes: Any) -> RunManifest:
    fields: dict[str, Any] = {
        "agent": "a",
        "system": "s",
        "targets": ("scripted:x",),
        "tools": (plain.spec, visit.spec),
        "workspace": "/w",
        "model_options": {"b": 1, "a": 2},
    }
    return RunManifest(**{**fields, **changes})


def test_a_manifests_hash_is_that_of_its_content():
    """DUR-06: key order does not matter, anything else does."""
    base = manifest().content_hash()
    assert len(base) == 32
    assert manifest(model_options={"a": 2, "b": 1}).content_hash() == base
    assert RunManifest.unpacked(manifest().packed()).content_hash() == base
    changes: list[dict[str, Any]] = [
        {"system": "t"},
        {"tools": (visit.spec, plain.spec)},
        {"behavior": AgentBehavior(max_turns=3)},
        {"workspace": "/v"},
    ]
    hashes = {manifest(**change).content_hash() for change in changes}
    assert len(hashes | {base}) == len(changes) + 1


def test_a_manifest_finds_tools_by_name_and_alias():
    """TOOL-05."""
    made = manifest(tools=(plain.with_alias("say").spec,))
    assert made.tool("say") == made.tool("plain") == plain.with_alias("say").spec
    assert made.tool("nope") is None
