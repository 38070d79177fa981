"""The system prompt: composed, frozen, kept, and what a run is told of changes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire_messages import turn
from zidane_core.content import TextBlock
from zidane_core.context.system_prompt import (
    FrozenPromptSections,
    catalog_change_notes,
    compose_system,
    frozen_system,
    latest_system_snapshot,
    mcp_instructions,
    read_sections,
    system_snapshot_turn,
    with_notes,
)
from zidane_core.context.wire_view import view_of
from zidane_core.context_options import SystemFreeze, SystemNote

ALL = FrozenPromptSections(skills="- pdf", tools="- find", mcp="## notion\nBe kind.")


def test_sections_follow_the_base_in_a_fixed_order():
    """SYS-01."""
    assert compose_system("You help.", ALL) == (
        "You help.\n\n<skills>\n- pdf\n</skills>\n\n<searchable-tools>\n- find\n"
        "</searchable-tools>\n\n<mcp-instructions>\n## notion\nBe kind.\n</mcp-instructions>"
    )
    assert compose_system("You help.", FrozenPromptSections()) == "You help."
    assert compose_system("", FrozenPromptSections(skills="x")) == "<skills>\nx\n</skills>"


def test_instructions_stand_under_their_servers():
    """SYS-01."""
    assert mcp_instructions({"a": "One.\n", "b": "", "c": "Two."}) == "## a\nOne.\n\n## c\nTwo."
    assert mcp_instructions({}) == ""


text = st.text(st.sampled_from("ab\n- <>/"), max_size=12)
sections = st.builds(FrozenPromptSections, skills=text, tools=text, mcp=text)


@given(st.sampled_from(["", "You help.", "<skills>\nfake\n</skills>"]), sections)
def test_sections_are_read_back_from_the_prompt(base: str, made: FrozenPromptSections):
    """SYS-03, SYS-04."""
    if base.startswith("<") and not made.skills:
        return
    assert read_sections(compose_system(base, made)) == made


def test_without_a_freeze_each_run_sends_its_fresh_prompt():
    """SYS-02, RUN-22."""
    made = frozen_system("fresh", None)
    assert (made.system, made.wants_notes, made.wants_capture) == ("fresh", False, False)


def test_a_frozen_prompt_is_sent_as_it_is_and_its_notes_are_asked_for():
    """SYS-02, SYS-07, RUN-22: byte for byte, whatever is fresh."""
    freeze = SystemFreeze(system="old", notes="tell", on_capture="keep")
    for fresh in ("old", "new", ""):
        made = frozen_system(fresh, freeze)
        assert (made.system, made.wants_notes, made.wants_capture) == ("old", True, False)
    assert not frozen_system("new", SystemFreeze(system="old")).wants_notes


def test_a_first_run_sends_its_fresh_prompt_and_hands_it_over():
    """SYS-02."""
    made = frozen_system("fresh", SystemFreeze(notes="tell", on_capture="keep"))
    assert (made.system, made.wants_notes, made.wants_capture) == ("fresh", False, True)
    assert not frozen_system("fresh", SystemFreeze()).wants_capture


def test_notes_stand_behind_the_prompt_those_of_the_freeze_first():
    """SYS-02, SYS-05, SESS-16, RUN-22."""
    turns = [turn("s", "system", "x"), turn("p", "user", "go")]
    noted = with_notes(
        turns,
        freeze_notes=[SystemNote(text="new skill", kind="skills-changed")],
        system_notes=[SystemNote(text="plan mode"), SystemNote(text="")],
    )
    assert noted[0] is turns[0]
    assert noted[1].content == (
        TextBlock(text="go"),
        TextBlock(text="new skill", system_note="skills-changed"),
        TextBlock(text="plan mode", system_note="note"),
    )


def test_notes_are_ignored_without_a_prompt_turn():
    """SYS-05."""
    note = SystemNote(text="x")
    assert with_notes([], system_notes=[note]) == ()
    only = turn("s", "system", "x")
    assert with_notes([only], system_notes=[note]) == (only,)
    prompt = turn("p", "user", "go")
    assert with_notes([prompt]) == (prompt,)


def test_a_snapshot_is_a_system_turn_of_one_text_that_no_model_sees():
    """SYS-03, SYS-04."""
    made = system_snapshot_turn("prompt", turn_id="s", created_at=1, parent_id="p", run_id="r")
    assert (made.role, made.parent_id, made.run_id, len(made.content)) == ("system", "p", "r", 1)
    assert made.text == "prompt"
    path = [turn("p", "user", "go"), made]
    assert view_of(path).messages() == view_of(path[:1]).messages()


def test_the_latest_snapshot_of_a_key_wins():
    """SYS-04."""
    path = [
        system_snapshot_turn("one", turn_id="s1", created_at=1),
        system_snapshot_turn("other", turn_id="s2", created_at=2, key="plan"),
        system_snapshot_turn(compose_system("two", ALL), turn_id="s3", created_at=3),
        turn("x", "system", "no snapshot"),
        turn("p", "user", "go"),
    ]
    latest = latest_system_snapshot(path)
    assert latest is not None
    assert (latest.turn_id, latest.key, latest.sections) == ("s3", "default", ALL)
    plan = latest_system_snapshot(path, "plan")
    assert plan is not None
    assert plan.system == "other"
    assert latest_system_snapshot(path, "none") is None
    assert latest_system_snapshot([]) is None


def test_changes_of_catalogues_are_told_line_by_line_and_instructions_anew():
    """SYS-03."""
    fresh = FrozenPromptSections(skills="- doc\n- pdf", tools="", mcp="## notion\nBe brief.")
    notes = catalog_change_notes(ALL, fresh)
    assert [(note.kind, note.text) for note in notes] == [
        ("skills-changed", "The list of skills in the system prompt has changed.\nNew:\n- doc"),
        (
            "tools-changed",
            "The list of searchable tools in the system prompt has changed.\nNo longer there:\n"
            "- find",
        ),
        (
            "mcp-changed",
            "The MCP instructions in the system prompt have changed. These hold now:\n## notion\n"
            "Be brief.",
        ),
    ]
    assert catalog_change_notes(ALL, ALL) == ()
    gone = catalog_change_notes(ALL, ALL.model_copy(update={"mcp": ""}))
    assert [note.text for note in gone] == [
        "The MCP instructions in the system prompt no longer hold."
    ]


@given(st.lists(sections, min_size=1, max_size=5))
def test_the_system_prompt_is_the_same_in_every_run_of_a_frozen_conversation(
    fresh_ones: list[FrozenPromptSections],
):
    """SYS-07, SYS-02: what the first run captured is what each later one sends."""
    first = compose_system("You help.", fresh_ones[0])
    path = [system_snapshot_turn(first, turn_id="s", created_at=1)]
    for fresh in fresh_ones:
        kept = latest_system_snapshot(path)
        assert kept is not None
        made = frozen_system(compose_system("You help.", fresh), SystemFreeze(system=kept.system))
        assert made.system == first
