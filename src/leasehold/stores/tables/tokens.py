"""Tokens and the signing key; `core.rules.tokens` decides.

Guard of a new token: its name is looked up inside the write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.core.model.text import is_text
from leasehold.core.model.tokens import Token
from leasehold.core.rules.tokens import check_same
from leasehold.env import from_micros
from leasehold.errors import StoreCorruptError
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import TableStep
from leasehold.stores.verbs.access import TokenVerbs

ADD: Final = "INSERT INTO token VALUES ($1, $2, $3)"
REMOVE: Final = "DELETE FROM token WHERE name = $1"
CHANGE: Final = "UPDATE token SET document = $1 WHERE name = $2"
KEY_BYTES: Final = 32
# Guard: the first process to need the key creates it, permanently.
MAKE_KEY: Final = "INSERT INTO meta VALUES ('signing_key', $1) ON CONFLICT DO NOTHING"

_token: Final = msgspec.json.Decoder(Token)


class _Sessions(msgspec.Struct):
    """The parts of a token's document besides the token, for the store's own use."""

    ended_sessions: tuple[str, ...] = ()


_sessions: Final = msgspec.json.Decoder(_Sessions)


class TokenReader:
    """The tokens of a store and its signing key, for readers."""

    all = "SELECT name, document FROM token ORDER BY name"
    by_name = "SELECT document FROM token WHERE name = $1"
    by_digest = "SELECT document FROM token WHERE digest = $1"
    read_key = "SELECT value FROM meta WHERE key = 'signing_key'"

    def __init__(self, db: SqlConnection) -> None:
        self._db = db

    def text(self, what: str, value: Any) -> str:  # noqa: ARG002  # for stores with other columns
        """The text returned by one of the statements; raises if it is not text."""
        return str(value)

    def every(self) -> list[Token]:
        return [each for _, each in self._read() if isinstance(each, Token)]

    def named(self, name: str) -> Token | None:
        return self._only(self._db.execute(self.by_name, (name,)).fetchall())

    def find(self, digest: str, now: int) -> Token | None:
        token = self._only(self._db.execute(self.by_digest, (digest,)).fetchall())
        return token if token is not None and token.is_good_at(from_micros(now)) else None

    def ended_sessions(self, name: str) -> Sequence[str]:
        """The ended sessions of a token; empty for a missing token."""
        rows = self._db.execute(self.by_name, (name,)).fetchall() if is_text(name) else []
        try:
            return _sessions.decode(self.text("its document", rows[0][0])).ended_sessions
        except (*UNREADABLE, IndexError):
            return ()

    def unreadable(self) -> list[str]:
        """The tokens that cannot be read, as sentences."""
        return [
            f"the token {name} cannot be read, and counts as revoked: {problem_of(each)}"
            for name, each in self._read()
            if isinstance(each, Exception)
        ]

    def signing_key(self) -> bytes | None:
        """The stored key, if it exists."""
        rows = self._db.execute(self.read_key).fetchall()
        if not rows:
            return None
        # A shorter key could be guessed, so it counts as damaged.
        with suppress(*UNREADABLE):
            key = bytes.fromhex(self.text("the signing key", rows[0][0]))
            if len(key) == KEY_BYTES:
                return key
        raise StoreCorruptError(
            "the store's signing key (meta.value of 'signing_key') cannot be read: restore a "
            "backup, or delete that row, and another key is made; clients of the service then lose "
            "their leases"
        )

    def _read(self) -> Iterator[tuple[str, Token | Exception]]:
        for name, document in self._db.execute(self.all):
            shown = name.decode(errors="replace") if isinstance(name, bytes) else name
            try:
                yield repr(shown), self._token_of(document)
            except UNREADABLE as error:
                yield repr(shown), error

    def _only(self, rows: list[Any]) -> Token | None:
        """The token in the row; None if it is unreadable."""
        try:
            return self._token_of(rows[0][0]) if rows else None
        except UNREADABLE:
            return None

    def _token_of(self, document: Any) -> Token:
        return _token.decode(self.text("its document", document))


class TokenShelf:
    """See `leasehold.core.rules.tokens.TokenShelf`."""

    def __init__(self, step: TableStep, tokens: TokenReader) -> None:
        self._step = step
        self.now = step.now
        self.find = tokens.named
        self.ended_sessions = tokens.ended_sessions
        self.audit = step.audit

    def add(self, token: Token, digest: str) -> None:
        self._step.execute(ADD, (token.name, digest, msgspec.json.encode(token).decode()))

    def remove(self, name: str) -> None:
        self._step.execute(REMOVE, (name,))

    def keep_ended_sessions(self, name: str, sessions: Sequence[str]) -> None:
        document = {**msgspec.to_builtins(self.find(name)), "ended_sessions": sessions}
        self._step.execute(CHANGE, (msgspec.json.encode(document).decode(), name))


class TableTokenVerbs(TokenVerbs):
    """Tokens looked for by their digests, and the signing key."""

    _database: TableDatabase
    _tokens: Callable[[Any], TokenReader]

    def _token_shelf(self, write: TableStep) -> TokenShelf:
        return TokenShelf(write, self._tokens(write.db))

    def find_token(self, digest: str) -> Token | None:
        return self._database.look(lambda db: self._tokens(db).find(digest, self._database.now(db)))

    def _token_check(self, token: Token, digest: str) -> Callable[[TableStep], None]:
        """The check for a write that relies on a token found earlier."""
        return lambda step: check_same(token, self._tokens(step.db).find(digest, step.now))

    def signing_key(self) -> bytes:
        with self._database.read() as db:
            known = self._tokens(db).signing_key()
        if known is not None:
            return known
        made = self._database.env.new_secret() + self._database.env.new_secret()

        def make(step: TableStep) -> None:
            step.execute(MAKE_KEY, (made,))

        self._database.write(make)
        return self.signing_key()
