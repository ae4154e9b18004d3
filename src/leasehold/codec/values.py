"""One JSON encoder for everything, and the question whether JSON changed a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import DEPTH_MAX, is_json_too_deep
from leasehold.errors import PayloadError, PayloadTooLargeError

PLAIN_TYPES: Final = frozenset((str, int, float, bool, type(None)))
"""What JSON never changes."""
_JSON_TYPES: Final = (*PLAIN_TYPES, list, dict)


def _as_json(value: Any) -> Any:
    """What msgspec does not know by itself: pydantic models, and subclasses of text and numbers."""
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(f"a value of type {type(value).__qualname__} is not JSON")


encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder(enc_hook=_as_json).encode
decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode


def encode_value(value: Any, what: str) -> bytes:
    """JSON, or a PayloadError that names the thing and its type."""
    try:
        return encode(value)
    except RecursionError:
        raise PayloadError(f"{what} is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise PayloadError(
            f"{what}, of type {type(value).__qualname__}, cannot be written as JSON: {error}"
        ) from error


def check_size(data: bytes, what: str, bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
    """Refuse data larger than a store keeps: inline, unless told otherwise."""
    if len(data) > bytes_max:
        raise PayloadTooLargeError(
            f"{what} is {len(data):,} bytes long; at most {bytes_max:,} are allowed. "
            "Store it elsewhere and submit its address."
        )


def check_nesting(data: bytes, what: str, around: int = 0) -> None:
    """Refuse JSON that is nested so deeply that some reader could not go as deep.

    `around` levels are our own, and not counted.
    """
    if is_json_too_deep(data, around):
        raise PayloadError(f"{what} is nested more than {DEPTH_MAX} levels deep")


def why_changed(sent: Any, received: Any, *, rebuilt: bool, where: str = "") -> str | None:
    """Why a value would not reach the other side as it was sent; None if it would.

    `rebuilt` says that a type hint named the type, so that the conversion is wanted.

    >>> why_changed((1, 2), [1, 2], rebuilt=False)
    >>> why_changed({1: "a"}, {"1": "a"}, rebuilt=False)
    'it has the dictionary key 1, and keys in JSON are text'
    """
    if sent == received:
        return None
    if isinstance(sent, float) and not math.isfinite(sent):
        return f"{where or 'it'} is {sent!r}, which JSON cannot represent"
    if isinstance(sent, list | tuple) and isinstance(received, list | tuple):
        pairs = list(zip(range(len(sent)), sent, received, strict=True))
    elif isinstance(sent, dict) and isinstance(received, dict):
        for key in sent:
            if key not in received or (len(received) != len(sent) and not isinstance(key, str)):
                return f"{where or 'it'} has the dictionary key {key!r}, and keys in JSON are text"
        pairs = [(key, sent[key], received[key]) for key in sent]
    elif rebuilt and type(sent) in _JSON_TYPES:
        return None
    elif type(sent) is type(received):
        # A class without equality of its own; only its numbers can have been lost.
        return f"{where or 'it'} holds NaN or infinity" if holds_nan(sent) else None
    else:
        return (
            f"{where or 'it'} is of type {type(sent).__qualname__} and would arrive as "
            f"{type(received).__qualname__}: name the type in the task's type hints"
        )
    for key, one, other in pairs:
        why = why_changed(one, other, rebuilt=rebuilt, where=f"{where}[{key!r}]")
        if why is not None:
            return why
    return None


def holds_nan(value: Any) -> bool:
    """Whether there is NaN or infinity anywhere in a value."""
    value = msgspec.to_builtins(value, enc_hook=_as_json)
    if isinstance(value, dict):
        return any(map(holds_nan, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(holds_nan, value))
    return isinstance(value, float) and not math.isfinite(value)
