"""Commands for people to paste.

Whoever submits jobs chooses their ids, queues and tasks, and somebody else pastes the command: so a
name is always one word of it, and never an option.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from leasehold.core.model.job import COMMAND_TASK
from leasehold.core.model.safe_text import is_unsafe

START_A_WORKER: Final = (
    "start one with `queuectl worker start --import MODULE` (for command jobs: --allow-commands)"
)
"""The advice when no particular job is meant."""

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def word(text: str) -> str:
    r"""One word of a command line, also as the value of an option.

    What would not be seen, or would end the line, is spelled out as bash and zsh read it; any other
    shell takes it for another harmless word.

    >>> word("mail"), word("$(reboot)"), word("a\nb'")
    ('mail', "'$(reboot)'", "$'a\\nb\\x27'")
    """
    if not any(map(is_unsafe, text)):
        return shlex.quote(text)
    spelled = (
        char.encode("unicode_escape").decode()
        if is_unsafe(char) or char == "\\"
        else "\\x27"
        if char == "'"
        else char
        for char in text
    )
    return f"$'{''.join(spelled)}'"


def words(*names: str) -> str:
    """The last words of a command line, after all of its options.

    >>> words("mail", "a b"), words("--help")
    ("mail 'a b'", '-- --help')
    """
    ends_options = "-- " if any(name.startswith("-") for name in names) else ""
    return f"{ends_options}{' '.join(map(word, names))}"


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
    start = f"queuectl worker start --queues {word(queue)}"
    if task == COMMAND_TASK:
        return f"{start} --allow-commands"
    module, named, _ = (task or "").partition(":")
    known = named and _MODULE.fullmatch(module) and module != "__main__"
    return f"{start} --import {module if known else 'MODULE'}"
