"""Where the tokens of a request go."""

from tests.support.wire_messages import answer, user
from zidane_core.context.breakdown import ContextBreakdown, context_breakdown
from zidane_core.context_options import ContextSections, RulesFile
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

RULES = "Rules: be brief."
LOOK = ToolSpec(name="look", alias="Look", description="Looks.", input_schema={"type": "object"})


def breakdown(system: str, sections: ContextSections | None = None) -> ContextBreakdown:
    return context_breakdown(
        system=system,
        messages=(user("go"), answer("done")),
        tools=(LOOK,),
        estimate_text=len,
        estimate_message=one_each,
        sections=sections,
        window=1_000,
    )


def one_each(message: Message) -> int:
    return len(message.content)


def test_each_token_is_in_one_bucket():
    """RUN-25."""
    made = breakdown("You help.")
    assert (made.system, made.rules, made.messages) == (9, 0, 2)
    assert made.tools == len('Look\nLooks.\n{"type": "object"}')
    assert made.total == 9 + made.tools + 2
    assert made.free == 1_000 - made.total


def test_rules_are_taken_out_of_the_system_bucket_and_nothing_else_changes():
    """RUN-20."""
    files = (RulesFile(path="AGENTS.md", source="project"),)
    system = f"You help.\n{RULES}"
    plain = breakdown(system)
    made = breakdown(system, ContextSections(rules_block=RULES, rules_files=files))
    assert (made.rules, made.system) == (len(RULES), len(system) - len(RULES))
    assert (made.total, made.tools, made.messages) == (plain.total, plain.tools, plain.messages)
    assert made.rules_files == files


def test_a_rules_block_that_is_not_in_the_prompt_counts_nothing():
    """RUN-20."""
    made = breakdown("You help.", ContextSections(rules_block=RULES))
    assert (made.rules, made.system) == (0, 9)


def test_a_window_that_is_not_known_leaves_open_what_is_free():
    """RUN-25."""
    made = ContextBreakdown(system=5)
    assert (made.total, made.free) == (5, None)
    assert ContextBreakdown(system=5, window=3).free == 0
