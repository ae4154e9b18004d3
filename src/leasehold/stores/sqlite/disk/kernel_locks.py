"""Who holds a lock on a file, by the kernel's own list: notes of processes may be out of date."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

LOCKS: Final = Path("/proc/locks")

Kind = Literal["FLOCK", "POSIX"]


def writers_of(path: Path, kind: Kind) -> frozenset[int] | None:
    """The processes that hold a lock on this file to write; None where the kernel does not tell.

    It tells of no process outside this one's pid namespace, and on some file systems it names
    another device than the file does: where no lock at all is known of a file, nothing is.
    """
    try:
        status = path.stat()
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; one who waits has -> behind the number.
    of_file = [fields for fields in map(str.split, lines) if file in fields]
    held = [fields for fields in of_file if fields[1] == kind and fields[3] == "WRITE"]
    return frozenset(int(fields[4]) for fields in held if int(fields[4]) > 0) if of_file else None


def is_verified(pid: int, path: Path, kind: Kind) -> bool:
    """Whether a process that has noted that it holds a lock may be named as its holder.

    It is alive, too: a lock that a fork has inherited is still known by who took it.
    """
    holders = writers_of(path, kind)
    return (holders is None or pid in holders) and _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # There is one, of another user.
    return True
