"""Whether a store goes on where it was left, or was exchanged for an older copy meanwhile.

Beside the database there is a small file, `continuity`. Every process that may write holds it, by a
shared lock, and whoever closes the store notes there how far it had come: the store's clock, which
every write advances, and the highest lease version. The note never travels with a copy of the
database. So, when a store is opened that nobody else holds and is not exactly where the note says,
it was either not closed (its process was killed) or not left there (it was restored).
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

READ: Final = "SELECT clock, version_floor FROM store_state"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a store has come: both numbers only ever grow."""

    clock: int
    version_floor: int

    @classmethod
    def of(cls, db: apsw.Connection) -> Progress:
        clock, version_floor = db.execute(READ).fetchall()[0]
        return cls(int(str(clock)), int(str(version_floor)))


class Continuity:
    """This process's hold on the note. All but `close` is called under the store's file lock."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._somebody_else_holds_it = not self._try(fcntl.LOCK_EX)
            # Shared from now on. Nobody else can come between: openings take turns.
            self._try(fcntl.LOCK_SH)
        except BaseException:
            os.close(self._fd)
            raise

    def is_unbroken(self, now: Progress) -> bool:
        """Whether all that was ever written to the store is still in it, as far as can be told."""
        left = self.noted()
        if left is None:
            return False
        if self._somebody_else_holds_it:
            # They have gone on since the last note.
            return left.clock <= now.clock and left.version_floor <= now.version_floor
        return left == now

    def noted(self) -> Progress | None:
        """What the last note says; None if there is none that can be read."""
        try:
            clock, version_floor = os.pread(self._fd, 100, 0).split()
            return Progress(int(clock), int(version_floor))
        except ValueError:
            return None

    def note(self, now: Progress) -> None:
        """The store has come so far. Nothing is synced: after a restart no note is trusted."""
        os.pwrite(self._fd, f"{now.clock:<24d} {now.version_floor:<24d}\n".encode(), 0)

    def close(self) -> None:
        os.close(self._fd)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
