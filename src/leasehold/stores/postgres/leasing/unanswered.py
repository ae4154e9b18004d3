"""Leases that nobody was told of: the connection was lost during the commit of an exchange, and the
server stayed away for so long that its caller got an error.

If that commit was kept, these jobs are held by somebody who does not know it, and would wait until
their leases end. So the next exchange of this process hands them back first. Leases that were not
granted after all are not found then: no version is granted twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from leasehold.core.model.lease import Lease, Settlement, handed_back


class Unanswered:
    """Those of one process; any thread may use it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._leases: list[Lease] = []

    def note(self, leases: Sequence[Lease]) -> None:
        """Remember leases that may have been granted."""
        with self._mutex:
            self._leases += leases

    def hand_back(self, settle: Callable[[list[Settlement]], object]) -> None:
        """Settle them; if that raises, the next call tries again."""
        if not self._leases:
            return
        with self._mutex:
            leases, self._leases = self._leases, []
        try:
            settle(handed_back(leases))
        except BaseException:
            self.note(leases)
            raise
