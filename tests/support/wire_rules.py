"""What the strict validators of all wires share: ids, names, texts, attachments, pairing."""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

Wire = Mapping[str, Any]

ID = re.compile(r"^[a-zA-Z0-9_-]+\Z")
ANY_ID = re.compile(r"^.+\Z", re.DOTALL)
"""Chat servers name calls as they like, such as `functions.shell:0`."""
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}\Z")
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
DATA_URL = re.compile(r"^data:([\w.+-]+/[\w.+-]+);base64,(.*)$", re.DOTALL)


def paired(where: str, results: Sequence[str], calls: Sequence[str]) -> Iterator[str]:
    for call in calls:
        if results.count(call) != 1:
            yield f"{where}: call {call!r} has {results.count(call)} results"
    yield from (f"{where}: orphan result {each!r}" for each in results if each not in calls)


def fresh_ids(
    where: str, ids: Sequence[Any], seen: set[str], longest: int, form: re.Pattern[str] = ID
) -> Iterator[str]:
    for each in ids:
        if not isinstance(each, str) or not form.match(each) or len(each) > longest:
            yield f"{where}: id {each!r} has a wrong form or more than {longest} characters"
        if each in seen:
            yield f"{where}: id {each!r} is used twice"
        seen.add(each)


def sayable(body: Wire) -> Iterator[str]:
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        yield f"not valid UTF-8: {error.reason}"
    except (TypeError, ValueError) as error:
        yield f"not JSON: {error}"


def filled(where: str, text: Any) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield f"{where}: text {text!r} without a visible character"


def decodable(where: str, encoded: str) -> Iterator[str]:
    try:
        if not base64.b64decode(encoded, validate=True):
            yield f"{where}: an attachment without a byte"
    except (binascii.Error, ValueError):
        yield f"{where}: {encoded[:20]!r} is not base64"


def tool_table(tools: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    names = [name for name, _ in tools]
    if len(set(names)) < len(names):
        yield f"two tools of one name: {names}"
    for name, schema in tools:
        if not isinstance(name, str) or not NAME.match(name):
            yield f"tool name {name!r}"
        if not isinstance(schema, Mapping) or "type" not in schema or schema["type"] != "object":
            yield f"the schema of tool {name!r} is not an object's"


def json_object(where: str, arguments: Any) -> Iterator[str]:
    if not isinstance(arguments, str):
        yield f"{where}: arguments are no string"
        return
    try:
        read = json.loads(arguments)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        yield f"{where}: arguments {arguments[:40]!r} are no JSON object"
        return
    yield from sayable(cast(Wire, read))


def picture(where: str, url: Any) -> Iterator[str]:
    found = DATA_URL.match(url) if isinstance(url, str) else None
    if found is None:
        yield f"{where}: picture {str(url)[:30]!r}"
    elif found[1] not in IMAGES:
        yield f"{where}: media type {found[1]!r} of a picture"
    else:
        yield from decodable(where, found[2])


def pdf_file(where: str, name: Any, encoded: Any) -> Iterator[str]:
    found = DATA_URL.match(encoded) if isinstance(encoded, str) else None
    if found is None or found[1] != "application/pdf":
        yield f"{where}: file data {str(encoded)[:30]!r}"
    else:
        yield from decodable(where, found[2])
    if not isinstance(name, str) or not name.strip():
        yield f"{where}: a file without a name"
