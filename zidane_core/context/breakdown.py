"""Where the tokens of a request go: system, rules, tools, messages; an estimate."""

import json
from collections.abc import Callable, Sequence

from zidane_core.context_options import ContextSections, RulesFile
from zidane_core.session import Message
from zidane_core.tools import ToolSpec
from zidane_core.values import Value


class ContextBreakdown(Value):
    """Estimated tokens of a request, by what they are for; the buckets do not overlap.

    Implements: RUN-25.
    """

    system: int = 0
    """The system prompt without the host's rules."""
    rules: int = 0
    tools: int = 0
    messages: int = 0
    window: int | None = None
    """Tokens; None when it is not known."""
    rules_files: tuple[RulesFile, ...] = ()
    """What the rules were made of, as the host says."""

    @property
    def total(self) -> int:
        """All buckets together."""
        return self.system + self.rules + self.tools + self.messages

    @property
    def free(self) -> int | None:
        """Tokens of the window that are left, at least 0; None when it is not known."""
        return None if self.window is None else max(0, self.window - self.total)


def context_breakdown(
    *,
    system: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    estimate_text: Callable[[str], int],
    estimate_message: Callable[[Message], int],
    sections: ContextSections | None = None,
    window: int | None = None,
) -> ContextBreakdown:
    """Return where the tokens of a request go.

    Args:
        system: As it is sent.
        messages: As they are sent.
        tools: As they are sent.
        estimate_text: Tokens of a text.
        estimate_message: Tokens of a message, its media included.
        sections: What the host put into `system`. A rules block that does not stand there counts
            nothing.
        window: Of the model, in tokens.

    Implements: RUN-20, RUN-25.
    """
    known = sections or ContextSections()
    block = known.rules_block or ""
    has_rules = bool(block) and block in system
    base = system.replace(block, "", 1) if has_rules else system
    return ContextBreakdown(
        system=estimate_text(base) if base else 0,
        rules=estimate_text(block) if has_rules else 0,
        tools=sum(estimate_text(_declaration(tool)) for tool in tools),
        messages=sum(map(estimate_message, messages)),
        window=window,
        rules_files=known.rules_files,
    )


def _declaration(tool: ToolSpec) -> str:
    schema = json.dumps(tool.input_schema, ensure_ascii=False)
    return f"{tool.shown_name}\n{tool.description}\n{schema}"
