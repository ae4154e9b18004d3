"""Signed pickle: for whoever must send what JSON cannot say, and holds a key.

Unpickling runs code, so nothing is unpickled before its signature is checked.
"""

from __future__ import annotations

import hmac
from typing import Any, Final

from leasehold.errors import PayloadError

KEY_BYTES_MIN: Final = 16
_DIGEST: Final = "sha256"
_DIGEST_BYTES: Final = 32


def check_key(key: bytes) -> bytes:
    """Refuse a key that could be guessed."""
    if not isinstance(key, bytes) or len(key) < KEY_BYTES_MIN:
        raise ValueError(
            f"pickle_key must be at least {KEY_BYTES_MIN} random bytes, "
            "for instance from secrets.token_bytes(32); keep it out of the code"
        )
    return key


def dumps(value: Any, key: bytes, what: str) -> bytes:
    """Pickle and sign. `what` (a call, a result) is signed too: one cannot pass for the other."""
    import pickle  # Only whoever has a key needs it: a program that queues a job starts faster.

    try:
        data = pickle.dumps(value, protocol=5)
    except Exception as error:
        raise PayloadError(f"the {what} cannot be pickled: {error}") from error
    return hmac.digest(key, what.encode() + b"\0" + data, _DIGEST) + data


def loads(data: bytes, key: bytes | None, what: str) -> Any:
    """Check the signature, then unpickle."""
    if key is None:
        raise PayloadError(f"the {what} is a signed pickle, and no pickle_key was given to read it")
    signature, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if not hmac.compare_digest(signature, hmac.digest(key, what.encode() + b"\0" + data, _DIGEST)):
        raise PayloadError(
            f"the {what} is a pickle signed with another key, or it was tampered with: refused"
        )
    import pickle

    try:
        return pickle.loads(data)  # noqa: S301 - its signature was checked just now.
    except Exception as error:
        raise PayloadError(f"the {what} cannot be unpickled: {error}") from error
