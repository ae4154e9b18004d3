"""Payloads and results as people may see them: bounded, and without secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from leasehold.dashboard.shown import TEXT_LENGTH_MAX, json_text

HIDDEN: Final = "•••••• hidden"
DEPTH_MAX: Final = 40
_SECRET: Final = re.compile(
    r"passw|passphrase|secret|token|api_?key|apikey|authorization|credential|private_?key|cookie"
    r"|^pin$|^cvv$|^cvc$|card_?number|iban",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Shown:
    """A document as text."""

    text: str
    is_cut: bool
    characters: int


def document(value: Any) -> Shown:
    """Data as text: values that look like secrets are hidden, long ones are cut."""
    told = json_text(without_secrets(value))
    return Shown(told[:TEXT_LENGTH_MAX], len(told) > TEXT_LENGTH_MAX, len(told))


def without_secrets(value: Any, depth: int = 0) -> Any:
    """The same data; values whose name says that they are secret are hidden.

    >>> without_secrets({"user": "ada", "password": "x", "more": [{"api_key": 1}]})
    {'user': 'ada', 'password': '•••••• hidden', 'more': [{'api_key': '•••••• hidden'}]}
    """
    if depth > DEPTH_MAX:
        return "…"
    if isinstance(value, dict):
        return {
            name: HIDDEN if _SECRET.search(str(name)) else without_secrets(each, depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(each, depth + 1) for each in value]
    return value
