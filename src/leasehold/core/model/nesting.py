"""How deeply a document may be nested, so that readers in any program can parse it."""

from __future__ import annotations

import re
from typing import Any, Final

DEPTH_MAX: Final = 64
LEVELS_OF_CALL: Final = 2
"""Levels that Leasehold adds: a call is an object that contains a list or an object of arguments.
"""
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_QUOTED: Final = re.compile(rb'"[^"]*"')
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"[]{}'))
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")


def is_too_deep(value: Any) -> bool:
    """Whether lists and objects are nested more than DEPTH_MAX deep.

    >>> is_too_deep({"a": [1, {"b": 2}]})
    False
    """
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | tuple | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def is_json_too_deep(data: bytes, around: int = 0) -> bool:
    """The same check on JSON text, before it is parsed; brackets inside strings do not count.

    For text that is not JSON the result may be either. `around` levels are Leasehold's own and not
    counted.

    >>> is_json_too_deep(b"[" * 65 + b"]" * 65), is_json_too_deep(b'{"a": "[[["}')
    (True, False)
    """
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX + around:
        return False
    rest = _ESCAPED.sub(b"", data) if b"\\" in data else data
    rest = _QUOTED.sub(b"", rest.translate(None, _NOT_STRUCTURE)).translate(_ONE_KIND)
    # Each round removes the empty brackets, so it takes as many rounds as the text is deep.
    for _ in range(DEPTH_MAX + around):
        if b"[]" not in rest:
            return False
        rest = rest.replace(b"[]", b"")
    return bool(rest)
