"""OAuth credentials of a model provider as a file that only its owner can read."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from zidane_core.errors import InvalidRequestError
from zidane_core.values import Json

_OTHERS = 0o077


@dataclass(frozen=True)
class OAuthCredentials:
    """An access token and what renews it. Its text form shows no secret.

    Implements: HOOK-58.
    """

    access: str = field(repr=False)
    """The bearer token."""
    refresh: str | None = field(default=None, repr=False)
    """Gets the next access token; None when there is no way but to log in again."""
    expires: int | None = None
    """When `access` expires, in epoch milliseconds; None when that is not known."""
    token_url: str | None = None
    """Where tokens are renewed: https, or http on this machine."""
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    extra: Json = field(default_factory=dict[str, Any], repr=False)
    """Other fields of the file; kept when it is written."""

    def to_json(self) -> Json:
        """Return the fields as the file has them, secrets included, without those not set."""
        known: Json = {
            "access": self.access,
            "refresh": self.refresh,
            "expires": self.expires,
            "token_url": self.token_url,
            "client_id": self.client_id,
            "scopes": [*self.scopes] or None,
        }
        return {**self.extra, **{key: value for key, value in known.items() if value is not None}}

    @classmethod
    def from_json(cls, found: Any) -> "OAuthCredentials":
        """Read what a file or a person says.

        Raises:
            ValueError: A field is missing or of a wrong kind; names the field, never its value.
        """
        if not isinstance(found, Mapping):
            raise ValueError("it is no JSON object")
        given = dict(cast("Mapping[str, Any]", found))
        names = [entry.name for entry in fields(cls) if entry.name != "extra"]
        known = {name: given.pop(name) for name in names if given.get(name) is not None}
        scopes = known.pop("scopes", ())
        listed = scopes.split() if isinstance(scopes, str) else scopes
        if not isinstance(listed, list | tuple):
            raise ValueError("'scopes' is no list of strings")
        if not known.get("access"):
            raise ValueError("'access' is missing")
        expires = known.get("expires")
        if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int)):
            raise ValueError("'expires' is no number of epoch milliseconds")
        for name in ("access", "refresh", "token_url", "client_id"):
            if name in known and not isinstance(known[name], str):
                raise ValueError(f"{name!r} is no string")
        entries = cast("list[Any]", listed)
        return cls(**known, scopes=tuple(map(str, entries)), extra=given)


def credentials_path(provider: str, environ: Mapping[str, str]) -> Path:
    """Return `ZIDANE_HOME/credentials/<provider>.json`; `.zidane` is the home when unset."""
    home = Path(environ.get("ZIDANE_HOME") or ".zidane").expanduser().absolute()
    return home / "credentials" / f"{provider}.json"


def read_credentials(path: Path) -> OAuthCredentials | None:
    """Return a file's credentials; None when there is no file.

    Raises:
        InvalidRequestError: Others than its owner may read it, or it holds no credentials; says
            what to do, without a secret.
    """
    try:
        with path.open(encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if mode & _OTHERS:
                raise InvalidRequestError(
                    f"Credentials file {str(path)!r} has mode {mode & 0o777:04o}, so others may "
                    f"read it: chmod 600 {path}",
                    path=str(path),
                )
            text = opened.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror or type(error).__name__) from error
    except UnicodeDecodeError:
        raise _unusable(path, "it is no text") from None
    try:
        return OAuthCredentials.from_json(json.loads(text))
    except json.JSONDecodeError:
        # Not chained: the decoder's error holds the whole text.
        raise _unusable(path, "it is no JSON") from None
    except ValueError as error:
        raise _unusable(path, str(error)) from None


def write_credentials(path: Path, credentials: OAuthCredentials) -> None:
    """Write the file in one step, for its owner alone; a reader sees the old or the new one.

    Raises:
        OSError: It cannot be written; the old one is then unchanged.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes files of mode 0600.
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    made = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as opened:
            json.dump(credentials.to_json(), opened, indent=2)
            opened.flush()
            os.fsync(opened.fileno())
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _unusable(path: Path, why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Credentials file {str(path)!r} cannot be used: {why}. It holds a JSON object with "
        "access, refresh, expires (epoch milliseconds), token_url and client_id.",
        path=str(path),
    )
