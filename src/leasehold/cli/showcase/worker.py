"""A worker process: `python -m leasehold.cli.showcase.worker STORE QUEUE DURABILITY`."""

from __future__ import annotations

import sys
from typing import cast

from leasehold.connect import Durability
from leasehold.queue.facade import TaskQueue


def main() -> None:
    path, name, durability = sys.argv[1:]
    queue = TaskQueue(
        path,
        num_workers=4,
        queues=name,
        durability=cast("Durability", durability),
        import_tasks=["leasehold.cli.showcase.tasks"],
    )
    queue.run_worker()
    queue.shutdown()


if __name__ == "__main__":
    main()
