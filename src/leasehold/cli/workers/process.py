"""One worker process: `python -m leasehold.cli.workers.process`, started by a crew.

It tells its crew when it works, by a byte on their connection, and stops when the connection ends:
a crew that was killed leaves no process behind.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import socket
import sys
import threading
from typing import Final

from leasehold.cli.exits import Exit
from leasehold.cli.session import actor
from leasehold.cli.workers.application import (
    check_same_store,
    code_for,
    module_names,
    queues_in,
)
from leasehold.cli.workers.ends import MARGIN_SECONDS
from leasehold.cli.workers.pidfile import HeldPidFile, PidRecord
from leasehold.cli.workers.plan import (
    LEAVING,
    READY,
    RECYCLED,
    REFUSED,
    CrewPlan,
    make_folder,
    read_plan,
    store_name,
)
from leasehold.core.model.phrases import listed
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError, StoreBusyError
from leasehold.queue.autostart import only_on_demand
from leasehold.queue.facade import TaskQueue
from leasehold.worker.joblines import logger
from leasehold.worker.loglines import log_to_stderr
from leasehold.worker.stopping import StopReason

_CODES: Final = {
    StopReason.STORE_LOST: Exit.STORE,
    StopReason.REFUSED: REFUSED,
    StopReason.UNRUNNABLE: Exit.PARTIAL,
}


def main() -> None:
    """Work as the plan on standard input says, and leave with the exit code."""
    plan, link_fd = read_plan()
    link = socket.socket(fileno=link_fd)
    log_to_stderr(quiet=plan.quiet, log_format=plan.log_format, utc=plan.utc)
    only_on_demand()
    # Tasks stand in modules of the folder in which the worker was started.
    sys.path.insert(0, os.getcwd())
    try:
        code = _work(plan, link)
    except LeaseholdError as error:
        code = code_for(error)
    with contextlib.suppress(OSError):  # The crew may be gone.
        link.send(LEAVING)
    sys.exit(code)


def _work(plan: CrewPlan, link: socket.socket) -> int:
    with open_queue(plan) as queue:
        held: list[HeldPidFile] = []

        def begin(worker_id: str) -> None:
            held.append(HeldPidFile(make_folder(plan.store_url), _record(plan, worker_id)))
            threading.Thread(
                target=_stop_with_crew, args=(link, plan.grace_seconds), daemon=True
            ).start()
            with contextlib.suppress(OSError):  # The crew may be gone.
                link.send(READY)

        try:
            reason = queue.run_worker(
                slots=plan.slots,
                queues=plan.queues,
                max_jobs=plan.max_jobs,
                max_memory_mb=plan.max_memory_mb,
                grace_seconds=plan.grace_seconds,
                lease_seconds=plan.lease_seconds,
                allow_commands=plan.allow_commands or None,
                tasks=plan.tasks,
                executor=plan.executor,
                until_empty=plan.until_empty,
                app_version=plan.app_version,
                on_ready=begin,
            )
        finally:
            for file in held:
                file.close()
    if reason.recycled:
        return RECYCLED
    return _CODES.get(reason, Exit.OK)


def open_queue(plan: CrewPlan) -> TaskQueue:
    """Open the store; while another process keeps it locked, wait and try again.

    That it takes long, on a machine with too much to do, does not mean that it cannot be opened,
    and the crew would give up a start that only has to wait.
    """
    while True:
        try:
            return _queue(plan)
        except StoreBusyError as error:
            logger.warning("the worker cannot start yet, and tries again: %s", error)


def _queue(plan: CrewPlan) -> TaskQueue:
    """The application's own queue, if it has one in this store; else one with its tasks."""
    queues = queues_in(plan.modules)
    check_same_store(queues, plan.store_url)
    modules = module_names(plan.modules)
    in_store = [queue for queue in queues.values() if queue.url and not _is_memory(queue.url)]
    if len(in_store) == 1:
        [queue] = in_store
        queue.registry.allow_import_of(modules)
    else:
        queue = TaskQueue(plan.store_url, num_workers=0, import_tasks=modules, actor=actor())
    for module in modules:
        queue.load_tasks(module)
    if modules and not queues and not list(queue.registry):
        logger.warning(
            "%s: no TaskQueue and no task; this worker serves %s, and runs only plain functions "
            "that jobs name",
            listed(map(_with_file, modules)),
            store_name(plan.store_url),
        )
    elif modules and not list(queue.registry) and not any(map(_has_functions, modules)):
        logger.warning(
            "no task is registered with this worker: %s has a TaskQueue but no task, so import the "
            "modules with the tasks too (--import MODULE)",
            listed(map(_with_file, modules)),
        )
    return queue


def _with_file(module: str) -> str:
    """A module and where it is: one of the standard library may hide one of the same name here."""
    file = getattr(sys.modules[module], "__file__", None)
    return module if file is None else f"{module} ({file})"


def _has_functions(module: str) -> bool:
    """Whether it defines functions, which jobs can name without any decorator."""
    values = vars(sys.modules[module]).values()
    return any(inspect.isfunction(each) and each.__module__ == module for each in values)


def _is_memory(url: str) -> bool:
    return url.startswith("memory:")


def _record(plan: CrewPlan, worker_id: str) -> PidRecord:
    return PidRecord(
        pid=os.getpid(),
        role="worker",
        started_at=SYSTEM.now(),
        crew_pid=os.getppid(),
        worker_id=worker_id,
        log_path=plan.log_path,
    )


def _stop_with_crew(link: socket.socket, grace_seconds: float) -> None:
    # It never sends anything: the only event is the end of the connection, and of the crew.
    with contextlib.suppress(OSError):
        link.recv(1)
    logger.warning("the process that started this worker is gone: stopping")
    os.kill(os.getpid(), signal.SIGTERM)
    # There is no crew any more that would kill what hangs.
    threading.Event().wait(min(grace_seconds + MARGIN_SECONDS, threading.TIMEOUT_MAX))
    logger.warning("this worker has not stopped in time, and is killed; its jobs are taken back")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
