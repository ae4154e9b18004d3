"""JSON text from outside, parsed strictly, since msgspec would accept faults that must not pass.

A key given twice, NaN, a number beyond any double, nesting beyond reason and size are refused.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from leasehold.codec.changes import why_changed
from leasehold.codec.values import check_size, decode, encode_value
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.nesting import DEPTH_MAX, is_too_deep
from leasehold.errors import PayloadError

_DIGITS_MAX: Final = 300


def encode_document(
    value: Any, what: str = "the document", bytes_max: int = PAYLOAD_BYTES_MAX
) -> bytes:
    """Any plain JSON value as bytes; what JSON would change is refused.

    >>> encode_document({"to": "a@b.c"})
    b'{"to":"a@b.c"}'
    """
    data = encode_value(value, what)
    check_size(data, what, bytes_max)
    decoded = decode(data)
    _check_nesting(decoded, what)
    why = why_changed(value, decoded, rebuilt=False)
    if why is not None:
        raise PayloadError(f"{what} cannot be written as JSON: {why}")
    return data


def decode_document(
    text: str | bytes, what: str = "the document", bytes_max: int = PAYLOAD_BYTES_MAX
) -> Any:
    """Plain data from untrusted JSON text.

    >>> decode_document('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    leasehold.errors.PayloadError: the document has the key 'a' twice in one object
    """
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
        check_size(data, what, bytes_max)
        value = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except _RefusedError as refused:
        raise PayloadError(f"{what} {refused}") from None
    except RecursionError:
        raise PayloadError(f"{what} is nested more than {DEPTH_MAX} deep") from None
    except UnicodeError as error:
        raise PayloadError(f"{what} is not UTF-8 text: {error}") from None
    except json.JSONDecodeError as error:
        raise PayloadError(f"{what} is not JSON: {error}") from None
    _check_nesting(value, what)
    return value


def _check_nesting(value: Any, what: str) -> None:
    if is_too_deep(value):
        raise PayloadError(f"{what} is nested more than {DEPTH_MAX} deep")


class _RefusedError(Exception):
    """Raised for values that Python's json accepts and Leasehold does not."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RefusedError(f"has the key {twice!r} twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise _RefusedError(f"contains {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"contains the number {text[:40]}, which is out of range")
    return value


def _bounded(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        raise _RefusedError(f"contains a number of {len(text)} digits")
    return int(text)
