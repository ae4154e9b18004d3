"""How deeply a document may be nested: every reader, in whatever program, can go that deep."""

from __future__ import annotations

from typing import Any, Final

DEPTH_MAX: Final = 64


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
