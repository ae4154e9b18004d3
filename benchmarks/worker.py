"""A worker process for the benchmarks: `python -m benchmarks.worker STORE DURABILITY`, or "-"."""

from __future__ import annotations

import sys
import threading

from leasehold import TaskQueue


def main() -> None:
    path, durability = sys.argv[1:]
    queue = TaskQueue(
        path,
        num_workers=4,
        durability=None if durability == "-" else "normal" if durability == "normal" else "full",
        import_tasks=["benchmarks"],
    )
    # The registry entry is there as soon as the worker may lease; then tell the parent.
    threading.Thread(target=_tell, args=(queue,), daemon=True).start()
    queue.run_worker()
    queue.shutdown()


def _tell(queue: TaskQueue) -> None:
    while not queue.workers():
        pass
    print("ready", flush=True)


if __name__ == "__main__":
    main()
