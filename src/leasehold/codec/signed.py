"""Signed pickle: for values that JSON cannot represent, between holders of a key.

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


def dumps(value: Any, key: bytes, what: str, task: str) -> bytes:
    """Pickle and sign. Its kind (a call, a result) and its task are signed too."""
    import pickle  # Only holders of a key need it: a program that queues a job starts faster.

    try:
        data = pickle.dumps(value, protocol=5)
    except Exception as error:
        raise PayloadError(f"the {what} cannot be pickled: {error}") from error
    return _signature(data, key, what, task) + data


def loads(data: bytes, key: bytes | None, what: str, task: str) -> Any:
    """Check the signature, then unpickle."""
    if key is None:
        raise PayloadError(f"the {what} is a signed pickle, and no pickle_key was given to read it")
    signature, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if not hmac.compare_digest(signature, _signature(data, key, what, task)):
        raise PayloadError(
            f"the {what} is a pickle signed with another key or not for task {task!r}, or it was "
            "tampered with: refused"
        )
    import pickle

    try:
        return pickle.loads(data)  # noqa: S301 - its signature was checked just now.
    except Exception as error:
        raise PayloadError(f"the {what} cannot be unpickled: {error}") from error


def _signature(data: bytes, key: bytes, what: str, task: str) -> bytes:
    """A signature that holds for this codec, this task and this direction alone.

    An attacker who can write to the store but has no key must not be able to make one task's
    arguments those of another, nor a result an argument. The name comes with its length, so that no
    two pairs of a name and data read the same.
    """
    name = task.encode("utf-8", "surrogatepass")
    bound_to = b"leasehold pickle %s %d:%s:" % (what.encode(), len(name), name)
    return hmac.digest(key, bound_to + data, _DIGEST)
