"""Width and height of an image, read from the head of its file; no pixel is decoded."""

import binascii
import struct
from collections.abc import Callable, Sequence

_HEADS = (4_096, 65_536, 1_048_576)
"""Base64 characters to look at: what stands before a JPEG's size may be long."""


def image_size(data: str) -> tuple[int, int] | None:
    """Return width and height in pixels of a base64 PNG, GIF, WebP or JPEG; None if unknown."""
    for head in _HEADS:
        try:
            raw = binascii.a2b_base64(data[:head])
        except ValueError:
            return None
        size = _read(raw)
        if size is not None or len(data) <= head or not raw.startswith(b"\xff\xd8"):
            return size
    return None


def _read(raw: bytes) -> tuple[int, int] | None:
    for magic, reader in _READERS:
        if raw.startswith(magic):
            try:
                return reader(raw)
            except (struct.error, IndexError):
                return None
    return None


def _png(raw: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", raw, 16)
    return width, height


def _gif(raw: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", raw, 6)
    return width, height


def _webp(raw: bytes) -> tuple[int, int] | None:
    match raw[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(raw[at : at + 3], "little") + 1 for at in (24, 27))
            return (width, height) if len(raw) >= 30 else None
        case b"VP8L":
            bits = struct.unpack_from("<I", raw, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", raw, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        # Frames are C0 to CF without the three that hold tables.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", raw, at + 2)[0]
    return None


_READERS: Sequence[tuple[bytes, Callable[[bytes], tuple[int, int] | None]]] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
    (b"\xff\xd8", _jpeg),
)
