"""What the system refuses about a store's files, in the words of the store contract."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Final

from leasehold.errors import StoreError, StoreFullError, StoreUnavailableError

_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


def is_passing(error: OSError) -> bool:
    """Whether it is a limit of this process or of the machine, and no fault of the files."""
    return error.errno in _NO_MORE_FILES


def of_files(error: OSError, path: Path) -> StoreError:
    """The StoreError for what the system refused about a store's files."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFullError(f"the disk that holds {path} is full: free some space")
    if is_passing(error):
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        whose = f"this process (limit {limit})" if error.errno == errno.EMFILE else "this machine"
        return StoreUnavailableError(
            f"{path} cannot be used for now: {whose} has too many open files. Close some, or raise "
            "the limit (ulimit -n, LimitNOFILE=), and try again"
        )
    return StoreUnavailableError(f"the files beside {path} cannot be opened or written: {error}")


def no_more_files() -> OSError | None:
    """Why this process can open no more files; None if it can.

    SQLite only says that it could not open one.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if is_passing(error) else None
    return None
