"""The comments in the code on the fields of a struct, for people who set them."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from textwrap import dedent


@cache
def described(struct: type) -> dict[str, str]:
    """The comment on each field: the text below it. Empty where there is no source."""
    try:
        [body] = ast.parse(dedent(inspect.getsource(struct))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        match (field, text):
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = re.sub(r"\s+", " ", words).strip()
    return found
