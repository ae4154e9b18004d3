"""The statements that SQLite and PostgreSQL share."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

from leasehold.stores import tables


def shared_statements() -> Iterator[tuple[str, str]]:
    for found in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
        for name, value in vars(importlib.import_module(found.name)).items():
            if isinstance(value, str) and "$1" in value and name.isupper():
                yield f"{found.name}.{name}", value


@pytest.mark.parametrize(("name", "statement"), list(shared_statements()))
def test_placeholders_first_appear_in_their_order(name: str, statement: str) -> None:
    """SQLite gives the first value to the placeholder that it meets first, whatever its number."""
    met = dict.fromkeys(int(number) for number in re.findall(r"\$(\d+)", statement))
    assert list(met) == list(range(1, len(met) + 1)), name
    assert "?" not in statement
