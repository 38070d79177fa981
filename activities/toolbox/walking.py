"""Walks a workspace as git sees it: links are shown and not followed, ignored entries left out.

Slower than ripgrep and able to show folders and links, so it serves list_files, and grep and
glob where there is no ripgrep.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pathspec import GitIgnoreSpec

from activities.toolbox.workspace import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, Place

HIDDEN_NAMES = (".git", ".zidane")
"""Never listed or searched, whatever is in .gitignore."""

_IGNORE_FILE = ".gitignore"


@dataclass(frozen=True)
class Entry:
    """Something that a walk came by."""

    parts: tuple[str, ...]
    """Names from the workspace's root down."""
    kind: Literal["file", "folder", "link"]

    @property
    def path(self) -> str:
        """The path relative to the workspace's root."""
        return "/".join(self.parts)


@dataclass(frozen=True)
class _Ignores:
    """The .gitignore files from the root down to a folder."""

    specs: tuple[tuple[int, GitIgnoreSpec], ...] = ()
    """How deep the file lies, and what it says; the deepest one last."""

    def entering(self, folder: Path, depth: int) -> "_Ignores":
        try:
            text = (folder / _IGNORE_FILE).read_text("utf-8", "replace")
            spec = GitIgnoreSpec.from_lines(text.splitlines())
        except (OSError, ValueError):
            return self
        return _Ignores((*self.specs, (depth, spec)))

    def cover(self, parts: tuple[str, ...], *, is_folder: bool) -> bool:
        for depth, spec in reversed(self.specs):
            path = "/".join(parts[depth:]) + ("/" if is_folder else "")
            said = spec.check_file(path).include
            if said is not None:
                return said
        return False


@dataclass
class Walk:
    """One walk through a folder, in the order of the names, each folder before its content.

    Implements: K-SEARCH-01.
    """

    place: Place
    """The folder to start in; it may itself be one that git ignores."""
    depth: int | None = None
    """1 for the folder's own entries; None for no bound."""
    ignored: int = field(default=0, init=False)
    """Entries that were left out because git ignores them; each ignored folder counts as one."""

    def __iter__(self) -> Iterator[Entry]:
        """Give the entries; folders that may not be read are passed over."""
        yield from self._entries(self.place.parts, self._outer_ignores(), 1)

    def _outer_ignores(self) -> _Ignores:
        ignores = _Ignores()
        folder = self.place.root
        for depth, name in enumerate(self.place.parts):
            ignores = ignores.entering(folder, depth)
            if ignores.cover(self.place.parts[: depth + 1], is_folder=True):
                # Whoever asks for an ignored folder wants to see it.
                return _Ignores()
            folder /= name
        return ignores

    def _entries(self, parts: tuple[str, ...], ignores: _Ignores, level: int) -> Iterator[Entry]:
        folder = self.place.root.joinpath(*parts)
        ignores = ignores.entering(folder, len(parts))
        try:
            with os.scandir(folder) as scan:
                found = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in found:
            if is_hidden(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            inner = (*parts, entry.name)
            if ignores.cover(inner, is_folder=is_folder):
                self.ignored += 1
            elif is_folder:
                yield Entry(inner, "folder")
                if self.depth is None or level < self.depth:
                    yield from self._entries(inner, ignores, level + 1)
            else:
                yield Entry(inner, "link" if entry.is_symlink() else "file")


def is_hidden(name: str) -> bool:
    """Say whether an entry of that name is never shown."""
    return name in HIDDEN_NAMES or (
        name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
    )
