"""What a run depends on is resolved once, at its start, and a wrong request is refused whole."""

from pathlib import Path
from typing import Any

import pytest

from activities.early_parts import check_parts
from activities.providers.base import ProviderCapabilities
from activities.providers.registry import Providers
from tests.support.inline_runs import PlayedModel, bench, calls, says
from zidane_core import AgentBehavior, ToolContext, tool
from zidane_core.content import AudioPart, DocumentPart, ImagePart, TextPart, VideoPart
from zidane_core.errors import (
    AgentError,
    InvalidRequestError,
    MissingKeyError,
    UnknownAgentError,
    UnknownModelError,
)
from zidane_core.hooks import AgentStart, ToolHook


@tool(read_only=True)
async def whoami(ctx: ToolContext) -> dict[str, Any]:
    """Show the context."""
    return {
        "depth": ctx.depth,
        "parent_run_id": ctx.parent_run_id,
        "parent_call_id": ctx.parent_call_id,
        "extensions": dict(ctx.extensions),
        "attempt": ctx.attempt,
        "tool": ctx.tool,
        "agent": ctx.agent,
    }


@tool(read_only=True)
async def other() -> str:
    """Do nothing."""
    return ""


@pytest.mark.parametrize(
    ("agent", "run", "system"),
    [
        (None, None, "You are a helpful assistant."),
        ("agent's", None, "agent's"),
        ("agent's", "run's", "run's"),
    ],
)
async def test_the_system_prompt_is_the_runs_then_the_agents_then_the_default(
    tmp_path: Path, agent: str | None, run: str | None, system: str
) -> None:
    """RUN-03."""
    async with bench(tmp_path, [says("ok")], system=agent) as b:
        await b.run(system=run)
    assert b.model.requests[0].system == system


async def test_behavior_merges_run_over_agent_over_default_and_extensions_key_by_key(
    tmp_path: Path,
) -> None:
    """RUN-04, RUN-23, RUN-18, TOOL-15."""
    behavior = AgentBehavior(
        max_tokens=10, extensions={"a": 1, "b": 1}, model_options={"fast": True}
    )
    turns = [calls(("whoami", {})), says("ok")]
    async with bench(tmp_path, turns, tools=[whoami], behavior=behavior) as b:
        result = await b.run(behavior={"max_tokens": 20, "extensions": {"b": 2}})
        path = await b.store.path(result.session_id, result.head)
        await b.run(model_options={"slow": 1})
    assert b.model.requests[0].max_tokens == 20
    assert b.model.requests[0].model_options == {"fast": True}
    assert b.model.requests[-1].model_options == {"slow": 1}
    assert '"extensions": {"a": 1, "b": 2}' in str(path[2].tool_results[0].output)


@pytest.mark.parametrize(("names", "shown"), [(None, 2), ((), 0), (("other",), 1)])
async def test_tools_of_a_run_replace_the_agents(
    tmp_path: Path, names: tuple[str, ...] | None, shown: int
) -> None:
    """RUN-06."""
    async with bench(tmp_path, [says("ok")], tools=[whoami, other]) as b:
        await b.run(tools=names)
    assert len(b.model.requests[0].tools) == shown


async def test_a_childs_place_in_the_tree_is_recorded_and_seen_by_tools_and_hooks(
    tmp_path: Path,
) -> None:
    """RUN-11, RUN-12, RUN-13, RUN-15, RUN-16, RUN-21, HOOK-08, HOOK-10, SESS-14."""
    started: list[AgentStart] = []
    hooked: list[ToolHook] = []
    hooks = {"agent:start": started.append, "tool:before": hooked.append}
    turns = [calls(("whoami", {})), says("ok")]
    async with bench(tmp_path, turns, tools=[whoami], hooks=hooks) as b:
        result = await b.run(
            depth=1,
            parent_run_id="p-run",
            parent_call_id="p-call",
            run_label="child-1",
            tracing_context={"traceparent": "00-1"},
        )
        record = await b.store.run(result.run_id)
    assert record is not None
    assert (record.depth, record.parent_run_id, record.parent_call_id) == (1, "p-run", "p-call")
    assert (record.label, record.agent, record.status) == ("child-1", "tester", "completed")
    assert dict(started[0].tracing_context) == {"traceparent": "00-1"}
    assert (hooked[0].depth, hooked[0].parent_call_id) == (1, "p-call")


async def test_a_run_may_go_on_from_an_earlier_run_of_its_session(tmp_path: Path) -> None:
    """RUN-14."""
    async with bench(tmp_path, [says("first"), says("second"), says("third")]) as b:
        first = await b.run("one", session_id="s")
        await b.run("two", session_id="s")
        third = await b.run("three", session_id="s", resume_run_id=first.run_id)
        path = await b.store.path("s", third.head)
        record = await b.store.run(third.run_id)
    assert [turn.text for turn in path] == ["one", "first", "three", "second"]
    assert record is not None
    assert record.resumed_from_run_id == first.run_id


@pytest.mark.parametrize(
    ("request_fields", "error", "words"),
    [
        ({"agent": "testr"}, UnknownAgentError, "Did you mean 'tester'"),
        ({"model": "nowhere:m"}, UnknownModelError, "nowhere"),
        ({"model": "just-a-name"}, UnknownModelError, "provider:model"),
        ({"model": "anthropic:claude-sonnet-5-5"}, MissingKeyError, "ANTHROPIC_API_KEY"),
        ({"model": "scripted:/no/such/script.yaml"}, InvalidRequestError, "script.yaml"),
        ({"behavior": {"max_turn": 3}}, InvalidRequestError, "Did you mean 'max_turns'"),
        ({"behavior": {"retry": {"attempts": 3}}}, InvalidRequestError, "max_attempts"),
        ({"behavior": {"max_turns": "many"}}, InvalidRequestError, "behavior.max_turns"),
        ({"tools": ("whoam",)}, InvalidRequestError, "Did you mean 'whoami'"),
        ({"workspace": "relative"}, InvalidRequestError, "absolute"),
        ({"workspace": "/no/such/folder"}, InvalidRequestError, "/no/such/folder"),
        ({"prompt": None}, InvalidRequestError, "No prompt"),
        ({"resume_run_id": "nope"}, InvalidRequestError, "nope"),
    ],
)
async def test_a_wrong_request_is_refused_typed_and_leaves_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_fields: dict[str, Any],
    error: type[AgentError],
    words: str,
) -> None:
    """RUN-02, RUN-04, RUN-06, CAT-05."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    async with bench(tmp_path, [says("ok")], tools=[whoami]) as b:
        with pytest.raises(error, match=words):
            await b.run(**{"session_id": "s", **request_fields})
        assert b.model.requests == []
        assert not await b.store.session_exists("s")
        assert await b.store.list_runs() == ()


async def test_no_model_anywhere_says_how_to_give_one(tmp_path: Path) -> None:
    async with bench(tmp_path, [says("ok")]) as b:
        with pytest.raises(UnknownModelError, match="provider:model"):
            await b.run(model=None)


async def test_measures_of_a_turn_and_of_the_run(tmp_path: Path) -> None:
    """USE-03, USE-04, USE-07, USE-08, CLK-05."""

    async def thinks_first(request: Any, sink: Any) -> Any:
        sink.thinking("hm")
        return says("")

    async with bench(tmp_path, [thinks_first]) as b:
        result = await b.run()
    usage = result.stats.turn_usage
    assert usage is not None
    (turn,) = usage
    assert turn.time_to_first_token_ms is not None
    assert turn.stream_duration_ms is not None
    assert 0 <= turn.time_to_first_token_ms <= turn.stream_duration_ms
    first = result.stats.time_till_first_token_ms
    assert first is not None
    assert 0 <= first <= result.stats.elapsed + 1
    assert (turn.provider, turn.model_id) == ("played", "m")


async def test_a_turn_in_which_nothing_landed_has_no_time_to_first_token(tmp_path: Path) -> None:
    """USE-03."""
    async with bench(tmp_path, [says("")]) as b:
        result = await b.run()
    assert result.stats.time_till_first_token_ms is None
    assert result.stats.turn_usage is not None
    assert result.stats.turn_usage[0].time_to_first_token_ms is None


IMAGE = ImagePart(data="eA==", media_type="image/png", name="cat.png")
AUDIO = AudioPart(data="eA==", media_type="audio/wav")
VIDEO = VideoPart(data="eA==", media_type="video/mp4")
PDF = DocumentPart(data="eA==", media_type="application/pdf", name="p.pdf")
SHEET = DocumentPart(data="eA==", media_type="application/vnd.ms-excel")
NOTES = DocumentPart(data="a, b", media_type="text/csv", encoding="text")
ENCODED = DocumentPart(data="eA==", media_type="text/plain")
NOTHING = ProviderCapabilities(images=False)


@pytest.mark.parametrize(
    ("part", "capabilities", "words"),
    [
        (IMAGE, NOTHING, r"Part 2 .*image 'cat.png' \(image/png\).*'played'.*takes text, text doc"),
        (AUDIO, ProviderCapabilities(), r"audio \(audio/wav\).*It takes .*images"),
        (VIDEO, ProviderCapabilities(audio=True), r"video \(video/mp4\).*audio"),
        (PDF, ProviderCapabilities(), r"document 'p.pdf'"),
        (SHEET, ProviderCapabilities(documents=True), r"vnd.ms-excel.*PDF documents"),
    ],
)
async def test_a_part_that_the_first_model_cannot_take_is_refused_before_the_run(
    tmp_path: Path, part: Any, capabilities: ProviderCapabilities, words: str
) -> None:
    """PART-05, G-21: names the part, the provider and what it takes."""
    async with bench(tmp_path, [says("ok")]) as b:
        b.model.capabilities = capabilities
        fields: dict[str, Any] = {"prompt": (TextPart(text="look"), part)}
        with pytest.raises(InvalidRequestError, match=words):
            await b.run(session_id="s", **fields)
        assert b.model.requests == []
        assert not await b.store.session_exists("s")


@pytest.mark.parametrize(
    ("part", "capabilities"),
    [
        (NOTES, NOTHING),
        (ENCODED, NOTHING),
        (IMAGE, ProviderCapabilities(images=True)),
        (AUDIO, ProviderCapabilities(audio=True)),
        (VIDEO, ProviderCapabilities(video=True)),
        (PDF, ProviderCapabilities(documents=True)),
        # A provider that is handed what is stored judges for itself.
        (SHEET, ProviderCapabilities(documents=True, sends_history=False)),
    ],
)
def test_a_part_that_the_model_can_take_is_not_refused(
    part: Any, capabilities: ProviderCapabilities
) -> None:
    """PART-05, PROV-02: documents of text go inline everywhere."""
    model = PlayedModel([], capabilities=capabilities)
    check_parts(Providers({"played": model}), "played:m", (part,))


async def test_a_steer_with_such_a_part_is_not_refused_and_goes_on_as_a_marker(
    tmp_path: Path,
) -> None:
    """PART-05: the run is under way, so the model is told what it cannot see."""
    async with bench(tmp_path, [calls(("whoami", {})), says("ok")], tools=[whoami]) as b:
        b.model.capabilities = NOTHING
        runtime = b.runtime()
        runtime.send("steer", {"prompt": [IMAGE.model_dump(mode="json")]})
        result = await runtime.run()
    assert result.status == "completed"


@pytest.mark.parametrize(
    ("run", "names"),
    [(None, ("played:m", "played:n")), (("played:n",), ("played:n",))],
)
async def test_the_runs_models_stand_over_the_agents(
    tmp_path: Path, run: tuple[str, ...] | None, names: tuple[str, ...]
) -> None:
    """CAT-05, CAT-06: each run begins with the first."""
    async with bench(tmp_path, [says("ok")], model=("played:m", "played:n")) as b:
        result = await b.run(model=run)
        record = await b.store.run(result.run_id)
    assert record is not None
    assert record.model == names[0]
    assert b.model.requests[0].model == names[0].removeprefix("played:")
