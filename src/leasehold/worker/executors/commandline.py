"""The payload of a command job: a JSON document that says what to run.

    {"argv": ["convert", "in.png", "out.jpg"]}          run as it stands, without a shell
    {"shell": "sort names.txt | uniq > unique.txt"}     given to /bin/sh -c

Both may name `cwd`, `env` (variables to add) and `stdin` (text). To pass values to a shell command,
put them in `env` and let the shell read "$NAME"; never write them into the command itself.
"""

from __future__ import annotations

import msgspec

from leasehold.core.model.lease import Lease
from leasehold.errors import PayloadError


class CommandLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run, where, and with which input."""

    argv: list[str] | None = None
    shell: str | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    stdin: str | None = None

    def __post_init__(self) -> None:
        if (self.argv is None) == (self.shell is None):
            raise ValueError('give either "argv" or "shell"')
        if not self.arguments()[-1 if self.shell is not None else 0]:
            raise ValueError("the command is empty")
        if any(not name or "=" in name for name in self.env):
            raise ValueError('a name in "env" must not be empty nor contain "="')
        texts = [*self.arguments(), self.cwd or "", *self.env, *self.env.values()]
        if any("\0" in text for text in texts):
            raise ValueError("no program can be given a text with a NUL character")

    def arguments(self) -> list[str]:
        """The argument list to execute."""
        if self.shell is not None:
            return ["/bin/sh", "-c", self.shell]
        return self.argv or [""]


def command_line_of(lease: Lease) -> CommandLine:
    """The command line of a job; raises PayloadError, with the reason, for a bad document."""
    if lease.codec != "json":
        raise PayloadError(
            f"the payload of job {lease.job_id} is encoded as {lease.codec!r}: a command is JSON"
        )
    try:
        return msgspec.json.decode(lease.payload, type=CommandLine)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadError(
            f"the payload of job {lease.job_id} is not a command: {error}. It should look like "
            '{"argv": ["program", "argument"]} or {"shell": "command | command"}, with "cwd", '
            '"env" and "stdin" if need be.'
        ) from error
