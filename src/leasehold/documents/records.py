"""Any record as a document: its fields by their names, times in UTC."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import msgspec


def document_of(record: msgspec.Struct, *, without: Collection[str] = ()) -> dict[str, Any]:
    """A history event, an audit record, a worker, a clean-up, ...: field by field."""
    return {
        name: in_utc(getattr(record, name))
        for name in record.__struct_fields__
        if name not in without
    }


def in_utc(value: Any) -> Any:
    """A time in the common form, from any zone; any other value unchanged.

    >>> in_utc(datetime.fromisoformat("2030-01-01T01:00:00+02:00")).isoformat()
    '2029-12-31T23:00:00+00:00'
    """
    return value.astimezone(UTC) if isinstance(value, datetime) else value
