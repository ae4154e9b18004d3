"""How deeply a document may be nested: every reader, in whatever program, can go that deep."""

from __future__ import annotations

import re
from typing import Any, Final

DEPTH_MAX: Final = 64
LEVELS_OF_CALL: Final = 2
"""A call is an object with a list, or an object, of arguments in it: levels of our own."""
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
    """The same of JSON text, before anything is built of it; brackets inside of texts do not count.

    Text that is no JSON may be called either. `around` levels are our own, and not counted.

    >>> is_json_too_deep(b"[" * 65 + b"]" * 65), is_json_too_deep(b'{"a": "[[["}')
    (True, False)
    """
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX + around:
        return False
    rest = _ESCAPED.sub(b"", data) if b"\\" in data else data
    rest = _QUOTED.sub(b"", rest.translate(None, _NOT_STRUCTURE)).translate(_ONE_KIND)
    # Each round takes away what holds nothing: as many rounds as it is deep.
    for _ in range(DEPTH_MAX + around):
        if b"[]" not in rest:
            return False
        rest = rest.replace(b"[]", b"")
    return bool(rest)
