"""The making of a summary against a model that may refuse, with no I/O in it."""

from collections.abc import Callable

from tests.support.wire_messages import call, picture, result, turn
from zidane_core.context.summaries import CompactionPlan
from zidane_core.context.summary_work import (
    KEPT_BLOCK_CHARS,
    MAX_HALVINGS,
    SUMMARY_OPENING,
    SummaryRequest,
    SummaryWork,
    transcript,
)
from zidane_core.session import Turn

Model = Callable[[SummaryRequest], str | None]


def plan_of(*turns: Turn, earlier: str | None = None) -> CompactionPlan:
    return CompactionPlan(turns, (turn("k", "user", "kept"),), earlier, ())


def long_plan(turns: int = 40, chars: int = 4_000) -> CompactionPlan:
    return plan_of(*(turn(f"t{n}", "user", f"FACT-{n} " + "x" * chars) for n in range(turns)))


def made_with(work: SummaryWork, model: Model) -> tuple[str | None, list[SummaryRequest]]:
    """Drive the work as an activity does; None stands for "too long"."""
    asked: list[SummaryRequest] = []
    going: SummaryWork | None = work
    while going is not None and (request := going.request) is not None:
        asked.append(request)
        reply = model(request)
        going = going.too_long() if reply is None else going.done(reply)
    return (going.summary if going is not None else None), asked


def takes(limit: int) -> Model:
    """A model that refuses what is longer, and repeats every fact that it reads."""

    def model(request: SummaryRequest) -> str | None:
        if len(request.prompt) > limit:
            return None
        return " ".join(dict.fromkeys(w for w in request.prompt.split() if w.startswith("FACT-")))

    return model


def test_all_that_fits_is_one_request():
    """CMP-09."""
    summary, asked = made_with(SummaryWork.of(long_plan(5)), takes(10**9))
    assert len(asked) == 1
    assert summary == SUMMARY_OPENING + "FACT-0 FACT-1 FACT-2 FACT-3 FACT-4"


def test_a_request_that_is_too_long_is_halved_until_it_fits_and_no_fact_is_lost():
    """K-CONTEXT-05: 160 thousand against a limit of 100 thousand."""
    summary, asked = made_with(SummaryWork.of(long_plan()), takes(100_000))
    assert summary is not None
    assert [f"FACT-{n}" in summary.split() for n in range(40)] == [True] * 40
    sizes = [len(request.prompt) for request in asked]
    assert sizes[0] > 100_000
    assert all(size <= 100_000 for size in sizes[1:])
    assert len(asked) <= 4


def test_what_is_always_refused_is_given_up_after_a_bounded_number_of_requests():
    """K-CONTEXT-05: and no request is sent twice."""
    summary, asked = made_with(SummaryWork.of(long_plan()), takes(0))
    assert summary is None
    assert len(asked) == MAX_HALVINGS + 1
    sizes = [len(request.prompt) for request in asked]
    assert sizes == sorted(set(sizes), reverse=True)


def test_one_turn_that_is_longer_than_a_request_is_cut_in_the_middle():
    """K-CONTEXT-05."""
    plan = plan_of(turn("t", "user", *["FACT-A " + "x" * 7_000, "y" * 7_000 + " FACT-B"]))
    summary, _ = made_with(SummaryWork.of(plan), takes(6_000))
    assert summary == SUMMARY_OPENING + "FACT-A FACT-B"


def test_an_empty_answer_counts_as_refused_so_that_no_turn_is_forgotten():
    summary, asked = made_with(SummaryWork.of(long_plan()), lambda _: "  ")
    assert summary is None
    assert len(asked) == MAX_HALVINGS + 1


def test_the_window_of_the_summarys_model_sizes_the_first_request():
    """K-CONTEXT-05."""
    request = SummaryWork.of(long_plan(), window=10_000).request
    assert request is not None
    assert len(request.prompt) < 20_000


def test_the_facts_of_the_earlier_summary_are_input_to_the_next():
    """K-CONTEXT-02."""
    plan = plan_of(turn("t", "user", "FACT-2"), earlier=SUMMARY_OPENING + "FACT-1")
    summary, asked = made_with(SummaryWork.of(plan), takes(10**9))
    assert summary == SUMMARY_OPENING + "FACT-1 FACT-2"
    assert asked[0].prompt.startswith("<earlier-summary>")


def test_the_opening_stands_once_whatever_the_model_repeats():
    work = SummaryWork.of(plan_of(turn("t", "user", "x"))).done(SUMMARY_OPENING + "all")
    assert work is not None
    assert work.summary == SUMMARY_OPENING + "all"


def test_a_transcript_shows_calls_results_and_errors_but_no_bytes_of_media():
    """K-CONTEXT-04: a summary never has to send the pictures again."""
    failed = result("2", "no").model_copy(update={"is_error": True})
    shown = [
        transcript(turn("a", "assistant", "I look", call("1", "shell", cmd="ls"))),
        transcript(turn("r", "user", result("1", (picture(1, 5_000),)), failed, picture(2, 5_000))),
    ]
    assert shown == [
        '[assistant]\nI look\n(calls shell: {"cmd": "ls"})',
        "[user]\n(result: [image: image/png, 5000 b64 bytes])\n(result, an error: no)\n"
        "[image: image/png, 5000 b64 bytes]",
    ]
    flood = transcript(turn("r", "user", result("1", "x" * 50_000)))
    assert len(flood) < KEPT_BLOCK_CHARS + 100
