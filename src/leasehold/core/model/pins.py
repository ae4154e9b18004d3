"""Pins: short texts that people leave in a store for all of its users.

A deploy mark says when a version was deployed, a view names a search, and a stop asks a worker to
end.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, get_args

import msgspec

from leasehold.core.model.limits import NAME_LENGTH_MAX
from leasehold.core.model.phrases import listed
from leasehold.core.model.text import is_text
from leasehold.errors import InvalidPinError

PinKind = Literal["deploy", "view", "stop"]
PIN_KINDS: Final = get_args(PinKind)
PINS_MAX: Final = 200
"""How many of each kind are kept."""
TEXT_LENGTH_MAX: Final = 2000


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody pinned to the store."""

    kind: PinKind
    name: str
    """A version, the name of a view, or the id of a worker: there is one pin of each."""
    text: str = ""
    at: datetime
    by: str


def check_pin(kind: str, name: str, text: str) -> None:
    """Raise InvalidPinError for an invalid pin.

    >>> check_pin("deploy", "v1.2", "")
    >>> check_pin("deploy", "", "")
    Traceback (most recent call last):
    leasehold.errors.InvalidPinError: the name of a deploy must be printable text of 1 to 255 \
characters, not ''
    """
    if kind not in PIN_KINDS:
        raise InvalidPinError(
            f"there is no kind of pin {kind!r}: the kinds are {listed(PIN_KINDS)}"
        )
    if not (
        isinstance(name, str)
        and 1 <= len(name) <= NAME_LENGTH_MAX
        and name.isprintable()
        and is_text(name)
    ):
        raise InvalidPinError(
            f"the name of a {kind} must be printable text of 1 to {NAME_LENGTH_MAX} characters, "
            f"not {name!r}"
        )
    if not (isinstance(text, str) and len(text) <= TEXT_LENGTH_MAX and is_text(text)):
        raise InvalidPinError(
            f"the text of {kind} {name!r} must be at most {TEXT_LENGTH_MAX:,} characters"
        )
