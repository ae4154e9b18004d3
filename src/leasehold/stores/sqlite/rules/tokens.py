"""Tokens and the signing key; `core.rules.tokens` decides.

Guard of a new token: its name is looked for inside the write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.model.tokens import Token
from leasehold.env import from_micros
from leasehold.errors import StoreCorruptError
from leasehold.stores.sqlite.schema.rows import Kind, guarded, value_of

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database
    from leasehold.stores.sqlite.writing.step import Step

_DOCUMENT: Final = guarded("document", Kind.TEXT)
ALL: Final = f"SELECT {guarded('name', Kind.TEXT)}, {_DOCUMENT} FROM token ORDER BY name"  # noqa: S608  # our own names
BY_NAME: Final = f"SELECT {_DOCUMENT} FROM token WHERE name = ?"  # noqa: S608  # our own names
BY_DIGEST: Final = f"SELECT {_DOCUMENT} FROM token WHERE digest = ?"  # noqa: S608  # our own names
ADD: Final = "INSERT INTO token VALUES (?, ?, ?)"
REMOVE: Final = "DELETE FROM token WHERE name = ?"
READ_KEY: Final = f"SELECT {guarded('value', Kind.TEXT)} FROM meta WHERE key = 'signing_key'"  # noqa: S608  # our own names
KEY_BYTES: Final = 32
# Guard: the first to need the key makes it, for good.
MAKE_KEY: Final = "INSERT INTO meta VALUES ('signing_key', ?) ON CONFLICT DO NOTHING"

_token: Final = msgspec.json.Decoder(Token)


class TokenShelf:
    """See `leasehold.core.rules.tokens.TokenShelf`."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now
        self.audit = step.audit

    def find(self, name: str) -> Token | None:
        return _only(self._step.execute(BY_NAME, (name,)).fetchall())

    def add(self, token: Token, digest: str) -> None:
        self._step.execute(ADD, (token.name, digest, msgspec.json.encode(token).decode()))

    def remove(self, name: str) -> None:
        self._step.execute(REMOVE, (name,))


def every(db: apsw.Connection) -> list[Token]:
    return [each for _, each in _read(db) if isinstance(each, Token)]


def find(db: apsw.Connection, digest: str, now: int) -> Token | None:
    token = _only(db.execute(BY_DIGEST, (digest,)).fetchall())
    return token if token is not None and token.is_good_at(from_micros(now)) else None


def signing_key(database: Database) -> bytes:
    """The key of this store, made by the first who asks for it."""
    with database.read() as db:
        known = db.execute(READ_KEY).fetchall()
    if not known:
        made = database.env.new_secret() + database.env.new_secret()
        known = database.write(lambda step: _make_key(step, made))
    return _key_of(known[0][0])


def unreadable_tokens(db: apsw.Connection) -> list[str]:
    """The tokens that cannot be read, as sentences."""
    return [
        f"the token {name} cannot be read, and counts as revoked: {problem_of(each)}"
        for name, each in _read(db)
        if isinstance(each, Exception)
    ]


def _key_of(text: Any) -> bytes:
    """The stored key; a shorter one, which could be guessed, is no better than garbage."""
    with suppress(*UNREADABLE):
        key = bytes.fromhex(value_of("the signing key", Kind.TEXT, text))
        if len(key) == KEY_BYTES:
            return key
    raise StoreCorruptError(
        "the store's signing key (meta.value of 'signing_key') cannot be read: restore a backup, "
        "or delete that row, and another key is made; clients of the service then lose their leases"
    )


def _make_key(step: Step, made: str) -> list[Any]:
    step.execute(MAKE_KEY, (made,))
    return step.execute(READ_KEY).fetchall()


def _read(db: apsw.Connection) -> Iterator[tuple[str, Token | Exception]]:
    rows: Any = db.execute(ALL)
    for name, document in rows:
        shown = repr(name.decode(errors="replace")) if isinstance(name, bytes) else name
        try:
            yield shown, _token_of(document)
        except UNREADABLE as error:
            yield shown, error


def _only(rows: list[Any]) -> Token | None:
    """The token in the row; who cannot be read is nobody."""
    try:
        return _token_of(rows[0][0]) if rows else None
    except UNREADABLE:
        return None


def _token_of(document: Any) -> Token:
    return _token.decode(value_of("its document", Kind.TEXT, document))
