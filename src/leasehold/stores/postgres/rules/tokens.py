"""Tokens and the signing key; `core.rules.tokens` decides.

Guard of a new token: its name is looked for inside the write.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.model.tokens import Token
from leasehold.env import from_micros
from leasehold.errors import StoreCorruptError
from leasehold.stores.postgres.leasing.people import audit
from leasehold.stores.postgres.server.connection import Connection

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database
    from leasehold.stores.postgres.writing.step import Step

ALL: Final = "SELECT name, document FROM token ORDER BY name"
BY_NAME: Final = "SELECT document FROM token WHERE name = $1"
BY_DIGEST: Final = "SELECT document FROM token WHERE digest = $1"
ADD: Final = "INSERT INTO token VALUES ($1, $2, $3)"
REMOVE: Final = "DELETE FROM token WHERE name = $1"
KEY_BYTES: Final = 32
READ_KEY: Final = "SELECT value FROM meta WHERE key = 'signing_key'"
# Guard: the first to need the key makes it, for good.
MAKE_KEY: Final = "INSERT INTO meta VALUES ('signing_key', $1) ON CONFLICT DO NOTHING"

_token: Final = msgspec.json.Decoder(Token)


class TokenShelf:
    """See `leasehold.core.rules.tokens.TokenShelf`."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now

    def find(self, name: str) -> Token | None:
        return _only(self._step.execute(BY_NAME, (name,)).fetchall())

    def add(self, token: Token, digest: str) -> None:
        self._step.execute(ADD, (token.name, digest, msgspec.json.encode(token).decode()))

    def remove(self, name: str) -> None:
        self._step.execute(REMOVE, (name,))

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        audit(self._step, actor, action, count, detail)


def every(db: Connection) -> list[Token]:
    return [each for _, each in _read(db) if isinstance(each, Token)]


def find(db: Connection, digest: str, now: int) -> Token | None:
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


def unreadable_tokens(db: Connection) -> list[str]:
    """The tokens that cannot be read, as sentences."""
    return [
        f"the token {name} cannot be read, and counts as revoked: {problem_of(each)}"
        for name, each in _read(db)
        if isinstance(each, Exception)
    ]


def _key_of(text: str) -> bytes:
    """The stored key; a shorter one, which could be guessed, is no better than garbage."""
    with suppress(*UNREADABLE):
        key = bytes.fromhex(text)
        if len(key) == KEY_BYTES:
            return key
    raise StoreCorruptError(
        "the store's signing key (meta.value of 'signing_key') cannot be read: restore a backup, "
        "or delete that row, and another key is made; clients of the service then lose their leases"
    )


def _make_key(step: Step, made: str) -> list[Any]:
    step.execute(MAKE_KEY, (made,))
    return step.execute(READ_KEY).fetchall()


def _read(db: Connection) -> Iterator[tuple[str, Token | Exception]]:
    rows: Any = db.execute(ALL)
    for name, document in rows:
        try:
            yield repr(name), _token.decode(document)
        except UNREADABLE as error:
            yield repr(name), error


def _only(rows: list[Any]) -> Token | None:
    """The token in the row; who cannot be read is nobody."""
    try:
        return _token.decode(rows[0][0]) if rows else None
    except UNREADABLE:
        return None
