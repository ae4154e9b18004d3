"""Callers whose tokens were good before: a guess, checked before anything is done on it."""

from __future__ import annotations

from typing import Final

from leasehold.service.caller import Caller

KNOWN_MAX: Final = 1000


class KnownCallers:
    """By the hashes of their tokens, so many at most. For any thread."""

    def __init__(self) -> None:
        self._by_digest: dict[str, Caller] = {}

    def find(self, digest: str) -> Caller | None:
        """Who came with this token before; it may have ended since."""
        return self._by_digest.get(digest)

    def keep(self, digest: str, caller: Caller) -> None:
        self._by_digest[digest] = caller
        if len(self._by_digest) > KNOWN_MAX:
            self.forget(next(iter(self._by_digest)))

    def forget(self, digest: str) -> None:
        self._by_digest.pop(digest, None)
