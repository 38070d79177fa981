"""The system prompt: its sections, how it stays byte-stable over runs, and notes of changes.

A run that goes on with a frozen prompt is told what is new by notes on its prompt turn: these
stand at the end of the conversation, where they cost the prompt cache nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from zidane_core.content import TextBlock, clean_text
from zidane_core.context_options import SystemFreeze, SystemNote
from zidane_core.session import Turn
from zidane_core.values import Value

SNAPSHOT_ORIGIN = "system-snapshot:"
"""Origin of a snapshot's text block, before its prompt key."""
DEFAULT_PROMPT_KEY = "default"

_SECTION_TAGS: Mapping[str, str] = MappingProxyType(
    {"skills": "skills", "tools": "searchable-tools", "mcp": "mcp-instructions"}
)
_SECTION_TITLES: Mapping[str, str] = MappingProxyType(
    {"skills": "skills", "tools": "searchable tools", "mcp": "MCP instructions"}
)


class FrozenPromptSections(Value):
    """What the runtime appended to a base prompt; an empty text is a section that is not there."""

    skills: str = ""
    """Catalogue of skills."""
    tools: str = ""
    """Catalogue of searchable tools."""
    mcp: str = ""
    """Instructions of MCP servers."""


class SystemPromptSnapshot(Value):
    """A frozen prompt of a conversation, as a snapshot turn holds it.

    Implements: SYS-04.
    """

    key: str = DEFAULT_PROMPT_KEY
    system: str
    turn_id: str

    @property
    def sections(self) -> FrozenPromptSections:
        """The sections of the prompt, read back from its text."""
        return read_sections(self.system)


class FrozenSystem(Value):
    """Which prompt a run sends, and what its host is asked.

    Implements: SYS-02.
    """

    system: str
    wants_notes: bool = False
    """Ask the freeze's `notes` for notes of this run's prompt turn."""
    wants_capture: bool = False
    """Hand the prompt to the freeze's `on_capture`."""


def compose_system(base: str, sections: FrozenPromptSections) -> str:
    """Return the prompt: base, skills, searchable tools, MCP instructions, a blank line between.

    Implements: SYS-01.
    """
    parts = [base] if base else []
    for name, tag in _SECTION_TAGS.items():
        text = str(getattr(sections, name))
        if text:
            parts.append(f"<{tag}>\n{text}\n</{tag}>")
    return "\n\n".join(parts)


def read_sections(system: str) -> FrozenPromptSections:
    """Return the sections that `compose_system` put into a prompt; the last of each tag counts."""
    found = {name: _between(system, tag) for name, tag in _SECTION_TAGS.items()}
    return FrozenPromptSections.model_validate(found)


def mcp_instructions(servers: Mapping[str, str]) -> str:
    """Return the section of MCP instructions, by server in the order given; empty without any."""
    return "\n\n".join(f"## {name}\n{text.strip()}" for name, text in servers.items() if text)


def frozen_system(fresh: str, freeze: SystemFreeze | None) -> FrozenSystem:
    """Say which prompt a run sends: the frozen one where there is one, else the fresh one.

    Args:
        fresh: What `compose_system` made for this run.
        freeze: None: every run sends its fresh prompt.

    Implements: SYS-02, SYS-07, RUN-22.
    """
    if freeze is None:
        return FrozenSystem(system=fresh)
    if freeze.system is not None:
        return FrozenSystem(system=freeze.system, wants_notes=freeze.notes is not None)
    return FrozenSystem(system=fresh, wants_capture=freeze.on_capture is not None)


def with_notes(
    turns: Sequence[Turn],
    *,
    freeze_notes: Iterable[SystemNote] = (),
    system_notes: Iterable[SystemNote] = (),
) -> tuple[Turn, ...]:
    """Append notes to the run's prompt turn, those of the freeze first.

    Args:
        turns: The turns that the run begins with; without a prompt turn the notes are ignored.
        freeze_notes: What the freeze's `notes` returned.
        system_notes: Of the run.

    Implements: SYS-02, SYS-05, SESS-16, RUN-22.
    """
    blocks = tuple(
        TextBlock(text=clean_text(note.text), system_note=note.kind)
        for note in (*freeze_notes, *system_notes)
        if note.text
    )
    prompt = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].role == "user"), None)
    if not blocks or prompt is None:
        return tuple(turns)
    noted = turns[prompt].model_copy(update={"content": (*turns[prompt].content, *blocks)})
    return (*turns[:prompt], noted, *turns[prompt + 1 :])


def system_snapshot_turn(
    system: str,
    *,
    turn_id: str,
    created_at: int,
    parent_id: str | None = None,
    run_id: str | None = None,
    key: str = DEFAULT_PROMPT_KEY,
) -> Turn:
    """Return the turn that keeps a prompt in its session; no model sees it as a message.

    Args:
        system: The prompt, whole.
        turn_id: Of the new turn.
        created_at: Milliseconds since the epoch.
        parent_id: The head that it follows.
        run_id: The run that sent the prompt.
        key: One conversation may keep several prompts apart.

    Implements: SYS-03, SYS-04.
    """
    return Turn(
        id=turn_id,
        parent_id=parent_id,
        role="system",
        content=(TextBlock(text=system, origin=f"{SNAPSHOT_ORIGIN}{key}"),),
        created_at=created_at,
        run_id=run_id,
    )


def latest_system_snapshot(
    path: Sequence[Turn], key: str = DEFAULT_PROMPT_KEY
) -> SystemPromptSnapshot | None:
    """Return the last snapshot of a key on a path; None when there is none.

    Implements: SYS-03, SYS-04.
    """
    for turn in reversed(path):
        block = turn.content[0] if turn.role == "system" and len(turn.content) == 1 else None
        if isinstance(block, TextBlock) and block.origin == f"{SNAPSHOT_ORIGIN}{key}":
            return SystemPromptSnapshot(key=key, system=block.text, turn_id=turn.id)
    return None


def catalog_change_notes(
    frozen: FrozenPromptSections, fresh: FrozenPromptSections
) -> tuple[SystemNote, ...]:
    """Return a note per section that is no longer as the frozen prompt says; may be empty.

    Catalogues are compared line by line, MCP instructions are given anew as a whole.

    Implements: SYS-03.
    """
    notes: list[SystemNote] = []
    for name, title in _SECTION_TITLES.items():
        old, new = str(getattr(frozen, name)), str(getattr(fresh, name))
        if old == new:
            continue
        text = _new_instructions(title, new) if name == "mcp" else _changes(title, old, new)
        notes.append(SystemNote(text=text, kind=f"{name}-changed"))
    return tuple(notes)


def _changes(title: str, old: str, new: str) -> str:
    before, after = old.splitlines(), new.splitlines()
    added = [line for line in after if line not in set(before)]
    removed = [line for line in before if line not in set(after)]
    lines = [f"The list of {title} in the system prompt has changed."]
    if removed:
        lines += ["No longer there:", *removed]
    if added:
        lines += ["New:", *added]
    return "\n".join(lines)


def _new_instructions(title: str, new: str) -> str:
    if not new:
        return f"The {title} in the system prompt no longer hold."
    return f"The {title} in the system prompt have changed. These hold now:\n{new}"


def _between(text: str, tag: str) -> str:
    head, opening, rest = text.rpartition(f"<{tag}>\n")
    if not opening or (head and not head.endswith("\n\n")):
        return ""
    body, closing, _ = rest.partition(f"\n</{tag}>")
    return body if closing else ""
