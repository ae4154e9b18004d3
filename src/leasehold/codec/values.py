"""One JSON encoder for everything, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import DEPTH_MAX, is_json_too_deep
from leasehold.core.model.text import with_article
from leasehold.errors import PayloadError, PayloadTooLargeError

PLAIN_TYPES: Final = frozenset((str, int, float, bool, type(None)))
"""The types that JSON never changes."""
JSON_TYPES: Final = (*PLAIN_TYPES, list, dict)


def as_json(value: Any) -> Any:
    """Convert values that msgspec does not know: pydantic models, and subclasses of text and
    numbers.
    """
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json")
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(_not_json(value))


def _not_json(value: Any) -> str:
    return f"a value of type {type(value).__qualname__} is not JSON"


encode: Final[Callable[[Any], bytes]] = msgspec.json.Encoder(enc_hook=as_json).encode
decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode


def encode_value(value: Any, what: str) -> bytes:
    """JSON, or a PayloadError that names the thing and its type."""
    try:
        return encode(value)
    except RecursionError:
        raise PayloadError(f"{what} is nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(value).__qualname__
        if str(error) == _not_json(value):
            why = f"{what} is {with_article(kind)}, which cannot be written as JSON"
        else:
            why = f"{what}, of type {kind}, cannot be written as JSON: {error}"
        raise PayloadError(why) from error


def check_size(data: bytes, what: str, bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
    """Refuse data larger than a store keeps: inline, unless told otherwise."""
    if len(data) > bytes_max:
        raise PayloadTooLargeError(
            f"{what} is {len(data):,} bytes long; at most {bytes_max:,} are allowed. "
            "Store it elsewhere and submit its address."
        )


def check_nesting(data: bytes, what: str, around: int = 0) -> None:
    """Refuse JSON that is nested so deeply that some reader could not go as deep.

    `around` levels are Leasehold's own and not counted.
    """
    if is_json_too_deep(data, around):
        raise PayloadError(f"{what} is nested more than {DEPTH_MAX} levels deep")
