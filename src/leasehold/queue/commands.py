"""Command jobs: from a command to the document that a worker runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from leasehold.errors import InvalidJobError
from leasehold.worker.executors.commandline import CommandLine


def command_document(
    command: str | Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> dict[str, Any]:
    """The payload of a command job: a list of arguments, or a string for the shell.

    >>> command_document(["convert", "in.png", "out.jpg"])
    {'argv': ['convert', 'in.png', 'out.jpg']}
    """
    shell = command if isinstance(command, str) else None
    argv = list(command) if shell is None else None
    try:
        line = CommandLine(argv=argv, shell=shell, cwd=cwd, env=dict(env or {}), stdin=stdin)
    except (TypeError, ValueError) as error:
        raise InvalidJobError(f"{command!r} cannot be run: {error}") from error
    return {name: value for name, value in msgspec.structs.asdict(line).items() if value}
