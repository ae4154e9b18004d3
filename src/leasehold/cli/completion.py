"""`completion`: the scripts by which a shell completes commands, options and names."""

from __future__ import annotations

from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.output import emit_one
from leasehold.cli.session import Session

PROGRAMS: Final = ("queuectl", "leasehold")


@command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(session: Session, shell: str) -> None:
    """Print the script that makes a shell complete commands.

    It completes commands, options, their choices, and the names of queues and schedules, for both
    names of the program.

    \b
    In ~/.bashrc:  eval "$(queuectl completion bash)"
    In ~/.zshrc:   eval "$(queuectl completion zsh)"
    For fish:      cd ~/.config/fish/completions
                   queuectl completion fish > queuectl.fish
    """
    script = "\n".join(_script(shell, program) for program in PROGRAMS)
    emit_one(session, {"shell": shell, "script": script}, show=lambda: click.echo(script, nl=False))


def _script(shell: str, program: str) -> str:
    from click.shell_completion import get_completion_class

    from leasehold.cli.root import root

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(root, {}, program, f"_{program.upper()}_COMPLETE")
    # Not made.source(): for bash that would start one, to find out which version it is.
    return made.source_template % made.source_vars()
