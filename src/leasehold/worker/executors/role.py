"""Whether this process is a child that runs tasks for a worker in another process.

A child imports the modules in which tasks are defined, and runs their top-level code: a queue made
there must not start its own workers inside the child.
"""

from __future__ import annotations

_child = False


def is_child_process() -> bool:
    """Whether this process was started by a `ProcessExecutor` to run tasks."""
    return _child


def become_child_process() -> None:
    """Called once, at the start of a child."""
    global _child  # noqa: PLW0603 - it is a fact about the whole process.
    _child = True
