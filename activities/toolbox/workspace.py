"""The workspace: which paths a tool may touch, and how they are opened and replaced.

A path is resolved in full, the last component and dangling links included, and must then lie
under the workspace's real root. The resolved path holds no link, so it is opened component by
component with O_NOFOLLOW: a link that somebody puts in its way in the meantime is an error
and never leads outside. This keeps a model from leaving the workspace by mistake or by a
planted link; it is not a sandbox, since a shell command runs with the worker's own rights.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from zidane_core.authoring import ToolError

TEMPORARY_PREFIX = ".zidane-"
TEMPORARY_SUFFIX = ".tmp"
"""How a file that is being written is called until it takes its name."""

_MAX_PATH_BYTES = 4_095
_MAX_NAME_BYTES = 255
"""What Linux and macOS take at most."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK: opening a named pipe must not wait for its writer.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class WorkspaceLostError(ToolError):
    """The workspace's root is gone: no file in it can be found or made (K-TEMPORAL-13)."""


@dataclass(frozen=True)
class Place:
    """A path inside a workspace, with no link left in it. It may not exist."""

    root: Path
    """Real path of the workspace."""
    parts: tuple[str, ...]
    """Names from the root down; empty for the root itself."""

    @property
    def path(self) -> Path:
        """The absolute path."""
        return self.root.joinpath(*self.parts)

    @property
    def shown(self) -> str:
        """The path as the model reads it: relative to the root, `.` for the root itself."""
        return "/".join(self.parts) or "."


@dataclass(frozen=True)
class Workspace:
    """One run's folder.

    Implements: K-FILES-06, K-TEMPORAL-13.
    """

    root: Path
    """Real, absolute path; a root that was given as a link is followed once, here."""

    @classmethod
    def at(cls, root: str) -> "Workspace":
        """Return the workspace at an absolute path.

        Raises:
            WorkspaceLostError: There is no folder at that path.
        """
        real = Path(os.path.realpath(root))
        if not real.is_dir():
            raise WorkspaceLostError(
                f"workspace lost: {root!r} is no longer a folder on this machine. Files of this "
                "run cannot be reached; nothing was read or written. Tell the user."
            )
        return cls(real)

    def place(self, path: str) -> Place:
        """Return where a path leads, links followed.

        Args:
            path: Relative to the root, or absolute.

        Raises:
            ToolError: The path is empty, malformed, or leads outside of the workspace.
        """
        if not path:
            raise ToolError("The path is empty. Give one relative to the workspace, such as 'src'.")
        try:
            real = Path(os.path.realpath(self.root / path))
        except ValueError as error:
            raise ToolError(f"Not a path: {path!r} ({error}).") from error
        if len(os.fsencode(real)) > _MAX_PATH_BYTES or any(
            len(os.fsencode(name)) > _MAX_NAME_BYTES for name in real.parts
        ):
            raise ToolError(f"The path {path[:_MAX_NAME_BYTES]!r} is too long.")
        if not real.is_relative_to(self.root):
            raise ToolError(
                f"{path!r} leads outside of the workspace, to {str(real)!r}. "
                f"Use a path under {str(self.root)!r}."
            )
        return Place(self.root, real.relative_to(self.root).parts)


def refusal(error: OSError, place: Place) -> ToolError:
    """Return what to tell the model about an operating-system error at a place."""
    return ToolError(f"Cannot use {place.shown!r}: {error.strerror or error}.")


@contextmanager
def folder_of(place: Place, *, create: bool = False) -> Generator[int]:
    """Open the folder that holds a place, and give its descriptor.

    Args:
        place: Not the root.
        create: Whether missing folders are made.
    """
    descriptor = os.open(place.root, _FOLDER_FLAGS)
    try:
        for name in place.parts[:-1]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(place: Place) -> Generator[BinaryIO]:
    """Open a regular file for reading.

    Raises:
        FileNotFoundError: There is no such file.
        ToolError: It is a folder, a device, a pipe or a socket, or may not be read.
    """
    if not place.parts:
        raise _is_folder(place)
    try:
        with folder_of(place) as folder:
            descriptor = os.open(place.parts[-1], _READ_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise refusal(error, place) from error
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise _is_folder(place)
        if not stat.S_ISREG(mode):
            raise ToolError(f"{place.shown!r} is no regular file but a device, pipe or socket.")
        yield file


def _is_folder(place: Place) -> ToolError:
    return ToolError(f"{place.shown!r} is a folder. Use list_files to see what is in it.")


@dataclass(frozen=True)
class Original:
    """A file as it was read, to be replaced by a changed one."""

    content: bytes | None
    """All of it; None when it is larger than the reader wanted."""
    status: os.stat_result


def read_original(place: Place, *, max_bytes: int) -> Original | None:
    """Read a whole file that is about to be changed; None when there is none.

    Raises:
        ToolError: It is no regular file, or may not be read.
    """
    try:
        with open_file(place) as file:
            status = os.fstat(file.fileno())
            return Original(file.read() if status.st_size <= max_bytes else None, status)
    except FileNotFoundError:
        return None


def replace_file(place: Place, content: bytes, *, original: Original | None) -> None:
    """Write a file in one step: readers see the old content or the new, never a part.

    The new file has the old one's mode and, where allowed, its owner; missing folders are made.
    Hard links and extended attributes of the old file are not carried over. Nothing is forced
    to disk: this guards against a killed worker, not against a power cut.

    Args:
        place: Where; not the root.
        content: All of it.
        original: What stood there when it was read; None when there was nothing.

    Raises:
        ToolError: The place changed since it was read, or cannot be written; nothing is changed.

    Implements: FILE-12.
    """
    try:
        with folder_of(place, create=True) as folder:
            _check_unchanged(place, folder, original)
            temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
            descriptor = os.open(temporary, _WRITE_FLAGS, 0o666, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    _copy_rights(descriptor, original)
                    file.write(content)
                _check_unchanged(place, folder, original)
                os.rename(temporary, place.parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
    except OSError as error:
        raise refusal(error, place) from error


def _copy_rights(descriptor: int, original: Original | None) -> None:
    if original is None:
        return
    status = original.status
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        # Only root may give a file away; others keep what they own.
        with suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _check_unchanged(place: Place, folder: int, original: Original | None) -> None:
    name = place.parts[-1]
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    before = None if original is None else original.status
    if _version(now) != _version(before):
        raise ToolError(
            f"{place.shown!r} was changed by someone else in this very moment; it was left as it "
            "is. Read it again and repeat the call."
        )
    # A rename needs no right on the file itself, so a read-only file would be replaced unasked.
    if now is not None and not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{place.shown!r} is read-only; it was left as it is.")


def _version(status: os.stat_result | None) -> tuple[int, ...] | None:
    if status is None:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
