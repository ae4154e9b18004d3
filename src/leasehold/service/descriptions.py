"""The description of a message in the OpenAPI document and the proto: its docstring."""

from __future__ import annotations

import inspect
import re
from typing import Final

_EXAMPLE: Final = re.compile(r"^>>> .*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""An example in Python, up to the end of its paragraph."""


def description_of(docstring: str | None) -> str:
    r"""The docstring without its examples in Python.

    >>> description_of("How many.\n\n    >>> print(1)\n    1\n\n    Never negative.")
    'How many.\n\nNever negative.'
    """
    return _EXAMPLE.sub("", inspect.cleandoc(docstring or "")).strip()
