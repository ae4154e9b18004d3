"""The worker process in which the zoo lives: `python -m support.zoo.host <path> <executor> <fd>`.

A process of its own, as some members change what their whole process shares. It says through the
descriptor that it is ready, and then that it has stopped and why.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from leasehold import TaskQueue
from support.zoo import good

SLOTS = 2


def main() -> None:
    path, executor, news_fd = sys.argv[1:]
    os.set_inheritable(int(news_fd), False)
    news = os.fdopen(int(news_fd), "w")
    chosen: Any = executor if executor == "process" else None
    queue = TaskQueue(
        path,
        num_workers=0,
        import_tasks=["support.zoo", "support.zoo.good"],
        allow_commands=True,
        lease_seconds=600,
        durability="normal",
    )
    # For a zoo with all executors in one worker.
    queue.task(name="in_a_process", executor="process")(good.in_place)
    reason = queue.run_worker(
        slots=SLOTS,
        executor=chosen,
        grace_seconds=3,
        on_ready=lambda _: print("ready", file=news, flush=True),
    )
    queue.shutdown()
    print(reason, file=news, flush=True)
    # Not by way of the interpreter's end: what members have left for it is not the worker's.
    os._exit(0)


if __name__ == "__main__":
    main()
