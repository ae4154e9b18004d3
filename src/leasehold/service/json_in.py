"""Untrusted JSON: any bytes give either data or InvalidRequestError."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final

import msgspec

from leasehold.core.model.nesting import DEPTH_MAX, is_json_too_deep
from leasehold.errors import InvalidRequestError


def decode_json(body: bytes) -> Any:
    """The data in a request's body.

    >>> decode_json(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> decode_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    leasehold.errors.InvalidRequestError: the body is not JSON: the key 'a' occurs twice
    """
    _check_depth(body)
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_without_twins,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        if b"\\u" in body:
            # A lone surrogate is not text; encoding detects it.
            msgspec.json.encode(value)
    except RecursionError:
        raise InvalidRequestError(_TOO_DEEP) from None
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"the body is not JSON: {error}") from None
    return value


def check_json(data: bytes, around: int = 0) -> None:
    """Raise InvalidRequestError unless it is JSON that any reader can parse.

    `around` levels of it are the service's own and not counted.
    """
    if is_json_too_deep(data, around):
        raise InvalidRequestError(f"it is nested deeper than {DEPTH_MAX} levels")
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"it is not JSON: {error}") from None


_TOO_DEEP: Final = f"the body is nested deeper than {DEPTH_MAX} levels"


def _check_depth(body: bytes) -> None:
    """Refuse deep nesting before anything is built."""
    if is_json_too_deep(body):
        raise InvalidRequestError(_TOO_DEEP)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twin = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twin!r} occurs twice")
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number
