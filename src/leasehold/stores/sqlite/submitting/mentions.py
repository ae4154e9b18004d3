"""A SQL function for searches: SQLite's own `lower` knows no letters beyond ASCII."""

from __future__ import annotations

from typing import Any

import apsw

from leasehold.core.model.text import mentions


def add_mentions(db: apsw.Connection) -> None:
    """Let statements of a connection say `mentions(text or bytes, part)`."""
    db.create_scalar_function("mentions", _mentions, 2, deterministic=True)


def _mentions(*values: Any) -> int:
    text, part = values
    # A payload comes as bytes, which need not be UTF-8.
    return mentions(text.decode(errors="replace") if isinstance(text, bytes) else text, part)
