"""Command jobs: the call of `submit_command` as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import msgspec

from leasehold.core.model.job import COMMAND_TASK
from leasehold.errors import InvalidJobError
from leasehold.queue.options import JobOptions, NewJob
from leasehold.worker.executors.commandline import CommandLine


def command_job(
    command: str | Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    **options: Unpack[JobOptions],
) -> NewJob:
    """A job that runs a command: a list of arguments, or a string for the shell.

    >>> command_job(["convert", "in.png", "out.jpg"], priority="low")
    NewJob('command', priority='low', document={'argv': ['convert', 'in.png', 'out.jpg']})
    """
    shell = command if isinstance(command, str) else None
    argv = list(command) if shell is None else None
    try:
        line = CommandLine(argv=argv, shell=shell, cwd=cwd, env=dict(env or {}), stdin=stdin)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(f"{command!r} cannot be run: {error}") from error
    document = {name: value for name, value in msgspec.structs.asdict(line).items() if value}
    return NewJob(COMMAND_TASK, document=document, **options)
