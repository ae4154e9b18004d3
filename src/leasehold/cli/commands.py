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
    "status": Entry("leasehold.cli.status", "status", "What there is: queues, jobs and workers."),
}
