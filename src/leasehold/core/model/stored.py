"""Stored documents as values: each is either valid or cannot be read.

A document may come from a newer version, or be damaged.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, get_args

import msgspec

from leasehold.core.model.retry import RetryPolicy
from leasehold.env import from_micros, to_micros

UNREADABLE: Final = (ValueError, TypeError, LookupError, ArithmeticError, msgspec.MsgspecError)
"""The errors that reading a bad row may raise."""
MOMENT_MAX: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that Python knows."""

_metadata: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(dict[str, Any])
_retry: Final[msgspec.json.Decoder[RetryPolicy]] = msgspec.json.Decoder(RetryPolicy)


def retry_of(text: str) -> RetryPolicy:
    """A stored retry policy; raises ValueError for one that this version does not know."""
    try:
        return _retry.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(_about_policy(text) or f"bad retry policy: {error}") from None


def _about_policy(text: str) -> str | None:
    known = {policy.__struct_config__.tag for policy in get_args(RetryPolicy)}
    try:
        kind = msgspec.json.decode(text)["type"]
    except UNREADABLE:
        return None
    return None if kind in known else f"unknown retry policy {kind!r}"


def metadata_of(text: str) -> dict[str, Any]:
    """Stored metadata; raises ValueError if it is not a JSON object."""
    try:
        return _metadata.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"bad metadata: {error}") from None


def moment(micros: int | None) -> datetime | None:
    """A stored time, if there is one."""
    return None if micros is None else from_micros(micros)


def micros(moment: datetime | None) -> int | None:
    """A time in its stored form, if there is one."""
    return None if moment is None else to_micros(moment)


def problem_of(error: BaseException) -> str:
    """What is wrong with a row, from the error raised by reading it."""
    if isinstance(error, KeyError):
        return f"unknown code or lane {error}"
    return str(error) or type(error).__name__


def document_of(text: str | bytes | None) -> Any:
    """A stored JSON document to show to people; an unreadable one as plain text."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return f"(cannot be read: {text!r})"


def detail_of(text: str) -> dict[str, Any]:
    """The detail of an audit record, to show to people."""
    document = document_of(text)
    return document if isinstance(document, dict) else {"detail": document}


def names_of(text: str) -> list[str]:
    """The queues or the tasks of a worker; empty if they cannot be read."""
    document = document_of(text)
    return document if isinstance(document, list) else []
