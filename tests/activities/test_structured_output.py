"""A run with a schema, from the model's answer to the value in the result."""

from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelTurn, ProviderCapabilities
from tests.support.inline_runs import bench, calls, says, sent_calls, sent_results
from zidane_core import tool
from zidane_core.content import tool_result_to_text
from zidane_core.errors import AgentError, AgentOutputError, InvalidRequestError
from zidane_core.output import OUTPUT_TOOL

N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
RISKS = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 20},
        "risks": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"where": {"type": "string"}, "why": {"type": "string"}},
                "required": ["where", "why"],
            },
        },
    },
    "required": ["title", "risks"],
}
BAD: dict[str, Any] = {"title": "all the risks are written here, as text", "risks": []}
NATIVE = ProviderCapabilities(structured_output=True)


@tool
async def append(text: str) -> str:
    """Append a line to the log."""
    LOG.append(text)
    return f"wrote {text}"


LOG: list[str] = []


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def output(**value: Any) -> ModelTurn:
    return calls((OUTPUT_TOOL, value))


async def test_the_model_is_offered_the_tool_and_its_input_is_the_output(tmp_path: Path) -> None:
    """OUT-01, OUT-02."""
    async with bench(tmp_path, [output(n=5)], tools=[append]) as b:
        result = await b.run(behavior={"schema": N})
    (request,) = b.model.requests
    assert [(tool.name, tool.input_schema == N) for tool in request.tools] == [
        ("append", False),
        (OUTPUT_TOOL, True),
    ]
    assert (request.output_schema, result.status) == (None, "completed")
    assert (result.output, result.stats.output) == ({"n": 5}, {"n": 5})
    assert "output_refused" not in result.full()


async def test_without_a_schema_there_is_no_output_and_no_tool(tmp_path: Path) -> None:
    """OUT-01: only then."""
    async with bench(tmp_path, [says("5")]) as b:
        result = await b.run()
    assert (result.output, result.stats.output, b.model.requests[0].tools) == (None, None, ())


async def test_prose_is_reminded_twice_then_the_tool_is_called(tmp_path: Path) -> None:
    """K-OUTPUT-01."""
    async with bench(tmp_path, [says("It is 5."), says("It is 5."), output(n=5)]) as b:
        result = await b.run(behavior={"schema": N})
        turns = await b.store.path(result.session_id, result.head)
    assert result.output == {"n": 5}
    assert len(result.output_refused) == 2
    reminders = [turn.text for turn in turns if turn.injected == "output-retry"]
    assert [OUTPUT_TOOL in text for text in reminders] == [True, True]


async def test_a_fenced_block_that_fits_is_accepted(tmp_path: Path) -> None:
    """K-OUTPUT-01, variation."""
    async with bench(tmp_path, [says('It is:\n```json\n{"n": 5}\n```')]) as b:
        result = await b.run(behavior={"schema": N})
    assert (result.output, result.stats.turns) == ({"n": 5}, 1)


async def test_prose_for_ever_is_a_typed_failure_with_the_last_text(tmp_path: Path) -> None:
    """K-OUTPUT-01, variation; OUT-02."""
    async with bench(tmp_path, [says("It is 5.")]) as b:
        with pytest.raises(AgentOutputError) as caught:
            await b.run(behavior={"schema": N})
    details: dict[str, Any] = caught.value.details
    assert (details["attempts"], details["last"]) == (5, "It is 5.")
    assert len(b.model.requests) == 5
    assert details["result"]["text"] == "It is 5."


async def test_a_result_says_how_many_answers_were_refused_and_why(tmp_path: Path) -> None:
    """K-OUTPUT-02."""
    last = {"title": "t", "risks": [{"where": "-", "why": "-"}]}
    async with bench(tmp_path, [*[output(**BAD)] * 4, output(**last)]) as b:
        result = await b.run(behavior={"schema": RISKS})
    assert result.output == last
    assert len(result.output_refused) == 4
    assert all("risks: " in why and "title: " in why for why in result.output_refused)
    assert [block.is_error for block in sent_results(b.model.requests[4])] == [True] * 4


async def test_giving_up_keeps_the_last_raw_output_and_the_transcript(tmp_path: Path) -> None:
    """K-OUTPUT-02, variation."""
    async with bench(tmp_path, [output(**BAD)]) as b:
        with pytest.raises(AgentOutputError) as caught:
            await b.run(behavior={"schema": RISKS})
        result: Any = caught.value.details["result"]
        turns = await b.store.path(result["session_id"], result["head"])
    assert '"risks": []' in str(caught.value.details["last"])
    assert [turn.role for turn in turns] == ["user", *["assistant", "user"] * 5]


async def test_another_tool_in_the_same_message_runs_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    """K-OUTPUT-03."""
    both = calls(("append", {"text": "hi"}), (OUTPUT_TOOL, {"n": 5}))
    async with bench(tmp_path, [both, says("more")], tools=[append]) as b:
        first = await b.run(behavior={"schema": N})
        await b.run("and now?", session_id=first.session_id)
    assert (first.output, LOG) == ({"n": 5}, ["hi"])
    follow_up = b.model.requests[1]
    assert [call.name for call in sent_calls(follow_up)] == ["append", OUTPUT_TOOL]
    assert [tool_result_to_text(r.output) for r in sent_results(follow_up)] == [
        "wrote hi",
        "Output accepted.",
    ]


async def test_a_bad_output_beside_another_tool_goes_back_and_that_tool_is_not_repeated(
    tmp_path: Path,
) -> None:
    """K-OUTPUT-03, variation."""
    both = calls(("append", {"text": "hi"}), (OUTPUT_TOOL, {"n": "five"}))
    async with bench(tmp_path, [both, output(n=5)], tools=[append]) as b:
        result = await b.run(behavior={"schema": N})
    assert (result.output, LOG) == ({"n": 5}, ["hi"])
    assert [r.is_error for r in sent_results(b.model.requests[1])] == [False, True]


async def test_a_provider_that_takes_schemas_gets_the_schema_and_no_tool(tmp_path: Path) -> None:
    """OUT-02, PROV-02: natively, and checked all the same."""
    async with bench(tmp_path, [says('{"n": "five"}'), says('{"n": 5}')]) as b:
        b.model.capabilities = NATIVE
        result = await b.run(behavior={"schema": N})
    assert [request.output_schema for request in b.model.requests] == [N, N]
    assert [request.tools for request in b.model.requests] == [(), ()]
    assert result.output == {"n": 5}
    (why,) = result.output_refused
    assert "as JSON only" in why


async def test_a_schema_of_no_object_travels_wrapped_and_comes_back_bare(tmp_path: Path) -> None:
    """OUT-01."""
    schema = {"type": "array", "items": {"type": "integer"}}
    async with bench(tmp_path, [output(value="[1, 2]")]) as b:
        result = await b.run(behavior={"schema": schema})
    assert result.output == [1, 2]


async def test_an_answer_cut_by_the_output_limit_does_not_count(tmp_path: Path) -> None:
    """OUT-02."""
    cut = ModelTurn(says('{"n": 5}').blocks, "length")
    async with bench(tmp_path, [cut, output(n=6)]) as b:
        result = await b.run(behavior={"schema": N})
    assert result.output == {"n": 6}
    assert "cut off" in result.output_refused[0]


async def test_an_output_too_large_for_a_result_is_refused_with_its_size(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"t": {"type": "string"}}}
    async with bench(tmp_path, [output(t="x" * 200_000), output(t="short")]) as b:
        result = await b.run(behavior={"schema": schema})
    assert result.output == {"t": "short"}
    assert "200009 bytes" in result.output_refused[0]


@pytest.mark.parametrize(
    ("schema", "says_what"),
    [
        ({"type": "nonsense"}, "not a JSON Schema"),
        ({"type": "object", "required": 3}, "not a JSON"),
    ],
)
async def test_a_schema_that_is_none_is_refused_at_the_start(
    tmp_path: Path, schema: dict[str, Any], says_what: str
) -> None:
    async with bench(tmp_path, [says("x")]) as b:
        with pytest.raises(AgentError, match=says_what) as caught:
            await b.run(behavior={"schema": schema})
    assert caught.value.code == InvalidRequestError.code


async def test_an_agents_own_tool_of_that_name_is_refused(tmp_path: Path) -> None:
    mine = tool(name=OUTPUT_TOOL)(lambda: "mine")
    async with bench(tmp_path, [says("x")], tools=[mine]) as b:
        with pytest.raises(InvalidRequestError, match=OUTPUT_TOOL):
            await b.run(behavior={"schema": N})
