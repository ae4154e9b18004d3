"""Callers whose tokens were valid before: a guess, checked before anything relies on it."""

from __future__ import annotations

from typing import Final

from leasehold.service.caller import Caller

KNOWN_MAX: Final = 1000


class KnownCallers:
    """A bounded number of callers, by the hashes of their tokens. Safe for any thread."""

    def __init__(self) -> None:
        self._by_digest: dict[str, Caller] = {}

    def find(self, digest: str) -> Caller | None:
        """The caller who used this token before; it may have ended since."""
        return self._by_digest.get(digest)

    def keep(self, digest: str, caller: Caller) -> None:
        self._by_digest[digest] = caller
        if len(self._by_digest) > KNOWN_MAX:
            self.forget(next(iter(self._by_digest)))

    def forget(self, digest: str) -> None:
        self._by_digest.pop(digest, None)
