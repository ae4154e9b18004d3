"""What this process holds of the system, to see that nothing of it leaks."""

from __future__ import annotations

import os
import threading


def child_pids(of: int | None = None) -> set[int]:
    """The children of this process, or of another one, zombies included."""
    wanted = os.getpid() if of is None else of
    children = set()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == wanted:
            children.add(int(entry))
    return children


def holdings() -> tuple[int, set[int], set[str]]:
    """How many descriptors, which children and which threads of ours there are."""
    threads = {t.name for t in threading.enumerate() if t.name.startswith("leasehold")}
    return len(os.listdir("/proc/self/fd")), child_pids(), threads
