"""Descriptions for the OpenAPI document and the proto: docstrings, of types and of their fields."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Final

SOURCE: Final = "__described_by__"
"""For a type derived from another: the type whose fields it has."""

_EXAMPLE: Final = re.compile(r"^>>> .*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""An example in Python, up to the end of its paragraph."""


def description_of(docstring: str | None) -> str:
    r"""The docstring without its examples in Python.

    >>> description_of("How many.\n\n    >>> print(1)\n    1\n\n    Never negative.")
    'How many.\n\nNever negative.'
    """
    return _EXAMPLE.sub("", inspect.cleandoc(docstring or "")).strip()


def field_descriptions(struct: type) -> dict[str, str]:
    """The docstrings of a type's fields, by name; Python keeps them only in the source.

    >>> from leasehold.service.producers import Submit
    >>> field_descriptions(Submit)["with_position"]
    'Whether to count the jobs ahead of this one, and estimate when it starts.'
    """
    found: dict[str, str] = {}
    for each in reversed(getattr(struct, SOURCE, struct).__mro__):
        if each.__module__.startswith("leasehold."):
            found |= _described(each.__module__).get(each.__qualname__, {})
    return found


@cache
def _described(module: str) -> dict[str, dict[str, str]]:
    """The field docstrings of all classes of a module; empty without its source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {each.name: dict(_texts(each)) for each in tree.body if isinstance(each, ast.ClassDef)}


def _texts(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(definition.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())
