"""Every command, where its code is, and its one line of help.

The help stands here so that `--help` loads none of them; a test compares the two.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command that is loaded when it is called. Its object is named like the last part."""

    module: str
    attribute: str
    help: str


COMMANDS: Final[dict[str, Entry]] = {
    "init": Entry("leasehold.cli.init", "init", "Make a store, or bring one up to date."),
    "enqueue": Entry("leasehold.cli.enqueue", "enqueue", "Submit jobs: commands, tasks, files."),
    "worker": Entry(
        "leasehold.cli.worker", "worker", "Run jobs: start, stop and look at worker processes."
    ),
    "status": Entry("leasehold.cli.status", "status", "What there is: queues, jobs and workers."),
    "logs": Entry("leasehold.cli.logs", "logs", "What a job printed or logged."),
    "wait": Entry("leasehold.cli.wait", "wait", "Wait until jobs have ended."),
}
