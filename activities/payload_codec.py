"""Encrypts what Temporal stores of a run, when `ZIDANE_PAYLOAD_KEY` is set.

Histories hold ids and numbers, but also prompts and messages of people. With a key they are
opaque to the server; clients, workers and `zidane replay` need the same key.
"""

import base64
import binascii
import dataclasses
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import DataConverter, PayloadCodec

from zidane_core.errors import InvalidRequestError

KEY_VARIABLE = "ZIDANE_PAYLOAD_KEY"
_ENCODING = b"binary/zidane-aesgcm"
_NONCE_BYTES = 12


class EncryptedPayloads(PayloadCodec):
    """AES-GCM over whole payloads; the key's own id travels along, so that a wrong key is named.

    Args:
        key: 16, 24 or 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._key_id = hashlib.sha256(key).hexdigest()[:8].encode()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload with a fresh nonce."""
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt ours; payloads of others pass untouched.

        Raises:
            InvalidRequestError: A payload was written with another key.
        """
        return [
            self._decrypted(payload) if payload.metadata.get("encoding") == _ENCODING else payload
            for payload in payloads
        ]

    def _encrypted(self, payload: Payload) -> Payload:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, payload.SerializeToString(), None)
        return Payload(
            metadata={"encoding": _ENCODING, "key-id": self._key_id}, data=nonce + sealed
        )

    def _decrypted(self, payload: Payload) -> Payload:
        nonce, sealed = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(self._cipher.decrypt(nonce, sealed, None))
        except InvalidTag as error:
            written_with = payload.metadata.get("key-id", b"?").decode()
            raise InvalidRequestError(
                f"A payload was written with key {written_with}, {KEY_VARIABLE} is key "
                f"{self._key_id.decode()}. Set the key that the run was started with."
            ) from error


def data_converter() -> DataConverter:
    """Return Temporal's own JSON converter, with encryption when `ZIDANE_PAYLOAD_KEY` is set.

    Raises:
        InvalidRequestError: The key is not base64 of 16, 24 or 32 bytes.
    """
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return DataConverter.default
    try:
        key = base64.b64decode(text, validate=True)
        codec = EncryptedPayloads(key)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError(
            f"{KEY_VARIABLE} is not base64 of 16, 24 or 32 bytes. Make one with: python -c "
            "'import base64, os; print(base64.b64encode(os.urandom(32)).decode())'"
        ) from error
    return dataclasses.replace(DataConverter.default, payload_codec=codec)
