"""`@last`: the job last submitted from this shell."""

from __future__ import annotations

import contextlib
import os
from typing import Final

import msgspec

LAST: Final = "@last"


class _LastJob(msgspec.Struct, frozen=True):
    store: str
    job_id: str


def remember(store: str, job_id: str) -> None:
    """Note the job for this shell; a note that cannot be written is not missed."""
    path = _path()
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        # Renamed into place, so that no reader ever sees half of it.
        beside = f"{path}.{os.getpid()}"
        with open(beside, "wb") as file:
            file.write(msgspec.json.encode(_LastJob(store, job_id)))
        os.replace(beside, path)


def recalled(store: str) -> str | None:
    """The id of the last job that this shell submitted to the store; None if there is none."""
    try:
        with open(_path(), "rb") as file:
            noted = msgspec.json.decode(file.read(), type=_LastJob)
    except (OSError, msgspec.DecodeError):
        return None
    return noted.job_id if noted.store == store else None


def _path() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    # A shell on a terminal leads a session, which its commands and their pipes belong to.
    return os.path.join(state, "leasehold", f"last-job-{os.getsid(0)}")
