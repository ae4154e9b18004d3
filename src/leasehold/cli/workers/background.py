"""A crew in the background: in a session of its own, with a log file in place of a terminal."""

from __future__ import annotations

import contextlib
import os

import msgspec

from leasehold.cli.workers.plan import READY, CrewPlan, default_log, make_folder, start_python


class Began(msgspec.Struct, frozen=True):
    """A crew that works in the background."""

    pid: int
    log_path: str


class DidNotBeginError(Exception):
    """The crew ended before it began; `said` is its output meanwhile."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said)
        self.code = code
        self.said = said


def begin(plan: CrewPlan, log_path: str | None) -> Began:
    """Start a crew and return when all its workers work; raises DidNotBeginError with the reason.

    The fresh interpreter has nothing of this process but the plan: no open store, no lock.
    """
    folder = make_folder(plan.store_url)
    path = os.path.abspath(log_path or default_log(folder))
    ready_end, crew_end = os.pipe()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    before = os.fstat(log).st_size
    try:
        planned = msgspec.structs.replace(plan, log_path=path)
        process = start_python("leasehold.cli.workers.crew", planned, crew_end, output=log)
    finally:
        os.close(crew_end)
        os.close(log)
    with open(ready_end, "rb") as ready:
        try:
            has_begun = ready.read(1) == READY
        except KeyboardInterrupt:
            process.terminate()
            raise
    if has_begun:
        # It outlives this process, on purpose; this process does not wait for it.
        process.returncode = 0
        return Began(process.pid, path)
    code = process.wait()
    with open(path, "rb") as log_file:
        log_file.seek(before)
        said = log_file.read().decode("utf-8", "replace").strip()
    if not before and log_path is None:
        # All that it holds is shown now; and a file that is not a store keeps nothing beside it.
        with contextlib.suppress(OSError):
            os.unlink(path)
            os.rmdir(folder)
    raise DidNotBeginError(code, said)
