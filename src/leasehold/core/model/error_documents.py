"""Errors as data: encoded as a document with a stable code, and decoded as the same class."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from leasehold.error_codes import CLASSES, CodedError
from leasehold.errors import LeaseholdError


def error_document(error: CodedError) -> dict[str, Any]:
    """An error's code, message and other fields, with times as text.

    >>> from leasehold.errors import JobNotFoundError
    >>> error_document(JobNotFoundError("no job 'x'"))
    {'code': 'job_not_found', 'message': "no job 'x'", 'fields': {}}
    """
    fields = {name: getattr(error, name) for name in error.fields}
    for name, value in fields.items():
        if isinstance(value, datetime):
            fields[name] = value.isoformat()
    return {"code": error.code, "message": str(error), "fields": fields}


def error_from(document: Mapping[str, Any]) -> CodedError:
    """The error in a document: the class for its code, with the same message and fields.

    An unknown code, which a newer version may send, gives a LeaseholdError that keeps the code.
    Unknown fields are dropped, and missing ones have their defaults.

    >>> error_from({"code": "rate_limited", "message": "slowly", "fields": {"queue": "mail"}}).queue
    'mail'
    """
    code = document["code"]
    kind = CLASSES.get(code, LeaseholdError)
    given = document.get("fields") or {}
    known = {name: _value_of(name, given[name]) for name in kind.fields if name in given}
    error = kind(document["message"], **known)
    if code not in CLASSES:
        error.code = code
    return error


def _value_of(name: str, value: Any) -> Any:
    is_moment = name.endswith("_at") and isinstance(value, str)
    return datetime.fromisoformat(value) if is_moment else value
