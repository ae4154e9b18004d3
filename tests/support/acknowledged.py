"""What killed processes had been told by the store, as they told it on (see store_children)."""

from __future__ import annotations

import os
from collections import Counter, defaultdict

from support.readable import is_readable


class Acknowledged:
    """Reads the lines that processes write to `tell_fd`."""

    def __init__(self) -> None:
        self._fd, self.tell_fd = os.pipe()
        os.set_blocking(self._fd, False)
        self._rest = b""
        self.submitted: set[str] = set()
        self.leased: Counter[tuple[str, int]] = Counter()
        self.settled: Counter[tuple[str, int, str]] = Counter()
        self.refused: list[tuple[str, int]] = []
        self.begun: defaultdict[str, list[int]] = defaultdict(list)
        """By job, when it began, in microseconds."""

    def close(self) -> None:
        os.close(self._fd)
        os.close(self.tell_fd)

    def listen(self, seconds: float = 60) -> int:
        """Wait for news; answers how many lines there were, 0 if none came in time."""
        if not is_readable(self._fd, seconds):
            return 0
        *lines, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
        for line in lines:
            match line.decode().split():
                case "S", job_id:
                    self.submitted.add(job_id)
                case "L", job_id, version:
                    self.leased[job_id, int(version)] += 1
                case "E", job_id, version, event:
                    self.settled[job_id, int(version), event] += 1
                case "B", job_id, moment:
                    self.begun[job_id].append(int(moment))
                case "R", job_id, version:
                    self.refused.append((job_id, int(version)))
        return len(lines)

    def drain(self) -> None:
        """Read what there is, once nobody writes any more."""
        while self.listen(0):
            pass
