"""A look at the application before its workers start: `python -m leasehold.cli.workers.probe`.

In a process of its own, since importing a module runs anybody's code: it may open stores, start
threads, or exit, and the parent of the workers must have nothing of that.
"""

from __future__ import annotations

import os
import sys

import msgspec

from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.workers.application import check_same_store, queues_in, store_of
from leasehold.cli.workers.plan import CrewPlan, read_plan, start_python
from leasehold.errors import LeaseholdError
from leasehold.queue.autostart import only_on_demand
from leasehold.worker.joblines import logger
from leasehold.worker.loglines import log_to_stderr


class ProbeError(Exception):
    """The application cannot be served; the probe has said why on standard error."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def with_store_of_application(plan: CrewPlan, *, store_is_given: bool) -> CrewPlan:
    """The plan, with the store of the application's own queue unless one was given.

    Raises ProbeError if its modules cannot be imported, or are about another store.
    """
    ours, theirs = os.pipe()
    asked = msgspec.structs.replace(plan, store_url=plan.store_url if store_is_given else "")
    process = start_python("leasehold.cli.workers.probe", asked, theirs)
    os.close(theirs)
    with open(ours, "rb") as answer:
        url = answer.read().decode()
    code = process.wait()
    if code != Exit.OK:
        raise ProbeError(code if code > 0 else Exit.FAILURE)
    return msgspec.structs.replace(plan, store_url=url or plan.store_url)


def main() -> None:
    """Look at the application, and write the store of its queue for the parent, if it has one."""
    try:
        _look()
    except (KeyboardInterrupt, BrokenPipeError):
        # Ctrl-C reaches parent and probe together, and a parent that was stopped reads no answer.
        sys.exit(Exit.INTERRUPTED)


def _look() -> None:
    plan, link_fd = read_plan()
    log_to_stderr(quiet=False, utc=plan.utc)
    only_on_demand()
    sys.path.insert(0, os.getcwd())
    try:
        queues = queues_in(plan.modules)
        url = plan.store_url
        if url:
            check_same_store(queues, url)
        else:
            url = store_of(queues) or ""
    except LeaseholdError as error:
        logger.error("%s", error, exc_info=error.__cause__)
        sys.exit(exit_for(error))
    with open(link_fd, "wb") as answer:
        answer.write(url.encode())
    for queue in queues.values():
        queue.shutdown()


if __name__ == "__main__":
    main()
