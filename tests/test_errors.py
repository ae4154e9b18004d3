"""The tree of errors in the docstring is the tree there is."""

from __future__ import annotations

import re

from leasehold import errors

LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+Error)\b", re.MULTILINE)


def test_the_tree_that_is_drawn_is_the_tree_there_is() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for found in LINE.finditer(errors.__doc__):
        depth = len(found["branch"]) // 4
        assert found["name"] not in drawn, f"{found['name']} is drawn twice"
        drawn[found["name"]] = above[depth - 1] if depth else None
        above[depth:] = [found["name"]]
    there = {
        name: next((base.__name__ for base in kind.__bases__ if base in ours(kind)), None)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.LeaseholdError)
    }
    assert drawn == there


def ours(kind: type) -> set[type]:
    return {each for each in kind.__mro__ if issubclass(each, errors.LeaseholdError)}
