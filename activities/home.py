"""The folder in which Zidane keeps its own files on this machine, and the store's address."""

import os
from pathlib import Path

from zidane_core.errors import StoreError


def made_home(home: Path) -> Path:
    """Return the folder as an absolute path without links, made when missing.

    A new one is for its owner alone (0700) and invisible to git.

    Raises:
        StoreError: It cannot be made or is not a folder.
    """
    home = home.expanduser().absolute().resolve()
    try:
        if not home.is_dir():
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = home / ".gitignore"
            ignore.touch(mode=0o600)
            ignore.write_text("*\n")
    except OSError as error:
        raise unusable_home(home, error) from error
    return home


def unusable_home(home: Path, error: OSError) -> StoreError:
    """Return the error for a home folder that cannot be used; says what to do."""
    return StoreError(
        f"The Zidane home folder {str(home)!r} cannot be used: {error.strerror or error}. Set "
        "ZIDANE_HOME to a folder that you may write to.",
        home=str(home),
    )


def zidane_home() -> Path:
    """Return the home: `ZIDANE_HOME`, or `.zidane` in the working directory; made when missing.

    Raises:
        StoreError: It cannot be made or is not a folder.
    """
    return made_home(Path(os.environ.get("ZIDANE_HOME") or ".zidane"))


def store_url() -> str:
    """Return `ZIDANE_STORE`, or a SQLite file in the home folder."""
    return os.environ.get("ZIDANE_STORE") or f"sqlite:///{zidane_home() / 'zidane.db'}"
