"""Tokens and the signing key, read so that a damaged row hinders nobody but itself."""

from __future__ import annotations

from typing import Any, Final

from leasehold.stores.sqlite.schema.rows import guarded, value_of
from leasehold.stores.tables import tokens
from leasehold.stores.tables.query import Kind

_DOCUMENT: Final = guarded("document", Kind.TEXT)


class TokenReader(tokens.TokenReader):
    """The tokens of a store and its signing key, for who reads."""

    all = f"SELECT {guarded('name', Kind.TEXT)}, {_DOCUMENT} FROM token ORDER BY name"  # noqa: S608  # our own names
    by_name = f"SELECT {_DOCUMENT} FROM token WHERE name = ?"  # noqa: S608  # our own names
    by_digest = f"SELECT {_DOCUMENT} FROM token WHERE digest = ?"  # noqa: S608  # our own names
    read_key = f"SELECT {guarded('value', Kind.TEXT)} FROM meta WHERE key = 'signing_key'"  # noqa: S608  # our own names

    def text(self, what: str, value: Any) -> str:
        return str(value_of(what, Kind.TEXT, value))
