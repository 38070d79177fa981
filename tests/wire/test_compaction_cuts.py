"""Compaction at every cut position: each service takes the history that it leaves."""

import pytest

from activities.providers.base import ModelRequest
from tests.support.model_requests import tool_spec
from tests.support.wire_messages import call, picture, result, turn
from tests.support.wires import WIRES, Wire, fitted
from zidane_core.content import ThinkingBlock
from zidane_core.context.passes import WireSettings, wire_passes
from zidane_core.context.summaries import plan_compaction, summary_turn
from zidane_core.context.wire_view import view_of
from zidane_core.context_options import MediaBudget
from zidane_core.session import Turn

SIGNED = ThinkingBlock(text="hm", signature="c2ln", signature_producer="anthropic")
ALL_PASSES = WireSettings(
    stale_stubs=True,
    media_budget=MediaBudget(max_items=1),
    tail_threshold_bytes=100,
    tail_keep_turns=2,
)


def run_path() -> list[Turn]:
    path = [turn("p", "user", "do it")]
    for number in range(5):
        ids = [f"call-{number}-{at}" for at in range(1 + number % 3)]
        calls = [call(call_id, "look", path="a.py") for call_id in ids]
        outputs = [result(call_id, "x" * 90) for call_id in ids[:-1]]
        shot = result(ids[-1], (picture(number, 60),))
        path.append(turn(f"a{number}", "assistant", SIGNED, f"step {number}", *calls))
        path.append(turn(f"r{number}", "user", *outputs, shot))
        if number == 2:
            path += [turn("d", "assistant", "done"), turn("u", "user", "and now?")]
    return path


CUTS = range(1, len(run_path()))


@pytest.mark.parametrize("wire", WIRES.values(), ids=list(WIRES))
@pytest.mark.parametrize("cut", CUTS)
def test_a_history_cut_anywhere_is_one_that_the_service_takes(cut: int, wire: Wire):
    """K-CONTEXT-01, CMP-09, LOOP-15: summary, then media, stubs and tail on top of it."""

    path = run_path()
    plan = plan_compaction(path, keep_turns=1, wanted=cut)
    assert plan is not None
    summary = summary_turn(
        plan, turn_id="s", parent_id="x", run_id="r1", created_at=1, summary="Before: all."
    )
    view = view_of([*path, summary])
    assert view.repairs() == ()
    for settings in (WireSettings(), ALL_PASSES):
        messages = wire_passes(view.messages(), settings, view.facts)
        request = ModelRequest(
            model="m", system="Be brief.", messages=messages, tools=(tool_spec("look"),)
        )
        assert wire.violations(wire.build(fitted(request, wire))) == []
