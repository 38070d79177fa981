"""What a person sets about context: compaction, stale reads, media, disclosure, system prompt."""

from typing import Any, Literal

from pydantic import Field

from zidane_core.values import UserInput

StaleReads = Literal["off", "stub", "notice"]
"""What becomes of a read that a later edit made untrue (FILE-07)."""

ToolDisclosure = Literal["eager", "lazy"]
"""Whether the model is given every MCP tool at once, or looks for them (DISC-01)."""


def read_stale_reads(value: Any) -> Any:
    """Read the short forms: true is `stub`, false and None are `off`."""
    if value is None or isinstance(value, bool):
        return "stub" if value else "off"
    return value


def read_auto_compact(value: Any) -> Any:
    """Read the short forms: true is all defaults, false is off."""
    if isinstance(value, bool):
        return {} if value else None
    return value


def read_fraction(value: Any) -> Any:
    """Read a fraction that is not between 0 and 1 as unset (CMP-06)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if 0 < value < 1 else None
    return value


class CompactSkip(UserInput):
    """When tail compaction is left out; what is unset always matches.

    Implements: CMP-07.
    """

    min_context_window: int | None = Field(default=None, ge=1)
    """Tokens; a window that is not known never matches."""
    providers: tuple[str, ...] | None = None
    """Names of providers; None is any."""


class AutoCompactConfig(UserInput):
    """How the older part of a run is summarised when its window fills up.

    Implements: CMP-09.
    """

    threshold: float = Field(default=0.85, gt=0, le=1)
    """Share of the window that a turn's input must reach."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens; None: see `resolve_window`."""
    keep_turns: int = Field(default=4, ge=1)
    """Newest user and assistant turns that stay as they are; more where a batch would be cut."""
    max_tail_bytes: int = Field(default=131_072, ge=1)
    """Text that the kept turns may hold; past it fewer of them stay, the last batch always."""
    model: str | None = None
    """`provider:model` of the summary; None is the run's own."""
    restore_files: int = Field(default=5, ge=0)
    """Files, last read first, whose text stands behind the summary."""
    restore_file_bytes: int = Field(default=16_384, ge=1)
    """Of each; the rest is cut off with a note."""
    restore_skills: bool = True
    """Whether the text of active skills stands behind the summary."""


class MediaBudget(UserInput):
    """How much inline media a request may hold before the oldest is left out (MED-02)."""

    max_items: int = Field(default=80, ge=0)
    """Images and documents."""
    max_bytes: int = Field(default=20 * 1024 * 1024, ge=0)
    """Base64 characters."""


class ToolSearch(UserInput):
    """How lazy tools are found and called; of no effect while disclosure is eager.

    Implements: DISC-03, DISC-09.
    """

    catalog: Literal["full", "names"] | None = None
    """How tools are listed: `full` is name and description; None leaves it to the runtime."""
    limit: int = Field(default=20, ge=1)
    """Tools of one search when the model names no limit."""
    mode: Literal["unlock", "dispatch"] | None = None
    """None is `dispatch`, which keeps the tools of the request byte-stable."""
    tool: Literal[False] | None = None
    """False: no `tool_search`, and a catalogue that asks for no call; the host has its own."""


class SystemNote(UserInput):
    """A note on the prompt turn, which announces what an edit of the system prompt would say.

    Implements: SYS-05.
    """

    text: str
    kind: str = "note"


class SystemFreeze(UserInput):
    """Keeps the system prompt of a conversation byte-stable over its runs.

    Implements: SYS-02.
    """

    system: str | None = None
    """What an earlier run captured; None: this run's fresh prompt is sent and captured."""
    notes: str | None = None
    """Name of a callable, `(fresh, sections) -> list of notes`; asked when `system` is set."""
    on_capture: str | None = None
    """Name of a callable, `(fresh, sections)`, that stores the prompt; called when it is not."""


class RulesFile(UserInput):
    """A file that the host put into the system prompt."""

    path: str
    source: str = ""
    """Where the host found it, such as `project` or `user`."""


class ContextSections(UserInput):
    """What the host put into `system`; it only attributes tokens, it changes nothing (RUN-20)."""

    rules_block: str | None = None
    """The text, as it stands in the system prompt."""
    rules_files: tuple[RulesFile, ...] = ()
