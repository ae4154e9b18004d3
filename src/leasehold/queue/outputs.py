"""Where the output of command jobs is kept."""

from __future__ import annotations

import os

from leasehold.core.job import Job
from leasehold.queue.options import JobRef
from leasehold.queue.people import People
from leasehold.worker.executors.output import output_paths
from leasehold.worker.task import COMMAND_TASK


class Outputs(People):
    """The part of a TaskQueue that knows the files of commands."""

    def output_paths(self, job: JobRef, attempt: int | None = None) -> tuple[str, str] | None:
        """The files with a command's stdout and stderr, of its latest attempt or an earlier one.

        They are on the machine whose worker ran it. None for another kind of job, and for an
        attempt that there was not.
        """
        snapshot = job if isinstance(job, Job) else self.get(job)
        if snapshot.task != COMMAND_TASK:
            return None
        latest = snapshot.stdout_path, snapshot.stderr_path
        if attempt is None and latest[0] is not None and latest[1] is not None:
            return latest[0], latest[1]
        folder = self._output_folder(snapshot)
        # A handed-back attempt and its successor share a number: the last one counts.
        tried = [
            each for each in self.attempts(snapshot.id) if attempt is None or each.number == attempt
        ]
        if not tried or folder is None:
            return None
        return output_paths(folder, snapshot.id, tried[-1].lease_version)

    def _output_folder(self, job: Job) -> str | None:
        if job.stdout_path is not None:
            return os.path.dirname(os.path.dirname(job.stdout_path))
        path = self.describe().get("path")
        return None if path is None else f"{path}-output"
