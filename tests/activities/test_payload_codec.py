"""Payloads are encrypted when a key is set, and a wrong key is named."""

import base64
import os

import pytest

from activities.payload_codec import EncryptedPayloads, data_converter
from zidane_core.errors import InvalidRequestError


async def test_payloads_round_trip_and_hide_their_content() -> None:
    """DUR-13."""
    codec = EncryptedPayloads(os.urandom(32))
    plain = await data_converter().encode([{"prompt": "a secret"}])
    sealed = await codec.encode(plain)
    assert b"secret" not in sealed[0].SerializeToString()
    assert (await codec.encode(plain))[0].data != sealed[0].data
    assert await codec.decode(sealed) == plain


async def test_payloads_of_others_pass_and_another_key_is_refused_by_name() -> None:
    plain = await data_converter().encode(["x"])
    sealed = await EncryptedPayloads(b"a" * 32).encode(plain)
    other = EncryptedPayloads(b"b" * 32)
    assert await other.decode(plain) == plain
    with pytest.raises(InvalidRequestError, match="was written with key"):
        await other.decode(sealed)


@pytest.mark.parametrize("key", ["not base64!", base64.b64encode(b"short").decode()])
def test_a_bad_key_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("ZIDANE_PAYLOAD_KEY", key)
    with pytest.raises(InvalidRequestError, match="Make one with"):
        data_converter()
