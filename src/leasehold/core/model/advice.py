"""Commands for people to paste."""

from __future__ import annotations

import re
import shlex
from typing import Final

from leasehold.core.model.job import COMMAND_TASK

START_A_WORKER: Final = (
    "start one with `queuectl worker start --import MODULE` (for command jobs: --allow-commands)"
)
"""The advice when no particular job is meant."""

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def worker_start(queue: str, task: str | None) -> str:
    """The command that starts a worker for a queue and a task of it; None if no command is known.

    >>> worker_start("mail", "shop.tasks:send")
    'queuectl worker start --queues mail --import shop.tasks'
    >>> worker_start("mail", "send"), worker_start("mail", None) == worker_start("mail", "send")
    ('queuectl worker start --queues mail --import MODULE', True)
    >>> worker_start("a b", "command"), worker_start("q", "$(reboot):now")
    ("queuectl worker start --queues 'a b' --allow-commands", \
'queuectl worker start --queues q --import MODULE')
    """
    start = f"queuectl worker start --queues {shlex.quote(queue)}"
    if task == COMMAND_TASK:
        return f"{start} --allow-commands"
    module, named, _ = (task or "").partition(":")
    known = named and _MODULE.fullmatch(module) and module != "__main__"
    return f"{start} --import {module if known else 'MODULE'}"
