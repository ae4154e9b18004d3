"""The entry point: run a command, and turn its end into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Final

from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.program import program
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    import click

OBJECTS_UNTIL_COLLECTION: Final = 50_000
OF_CLICK: Final = ("Missing ", "Invalid ", "Got ", "Option ", "No such ", "Command ")
"""The beginnings of messages that click writes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code."""
    # Imported modules live as long as the process: looking through them for garbage every few
    # hundred objects only makes a quick command slower, by a few milliseconds.
    gc.set_threshold(OBJECTS_UNTIL_COLLECTION)
    _open_standard_streams()
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # While it was imported: afterwards `run` hears of it.
        code = _say("interrupted", Exit.INTERRUPTED)
    sys.exit(code)


def _open_standard_streams() -> None:
    """Let streams that the caller has closed lead nowhere, so that no file gets their numbers."""
    # In this order, each gets the lowest number that is free, which is its own.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for ever


def run(arguments: Sequence[str]) -> int:
    """Run the command line; answers its exit code."""
    try:
        import click
    except ModuleNotFoundError:
        sys.stderr.write("the command line needs click and rich: pip install 'leasehold[cli]'\n")
        return Exit.FAILURE
    from leasehold.cli.root import root
    from leasehold.cli.session import Session

    session = Session()
    for argument in arguments:
        if not _is_text(argument):
            return _say(f"an argument is not UTF-8 text: {argument!r}", Exit.USAGE)
    try:
        code = root.main(list(arguments), prog_name=program(), standalone_mode=False, obj=session)
        sys.stdout.flush()
        return int(code or Exit.OK)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", Exit.INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.UsageError as error:
        command = program() if error.ctx is None else error.ctx.command_path
        return _say(f"{_in_our_style(error)}\nSee `{command} --help`.", Exit.USAGE)
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except LeaseholdError as error:
        from leasehold.core.model.moments import in_zone

        return _say(in_zone(str(error), UTC if session.utc else None), exit_for(error))
    except BrokenPipeError:
        # The reader of the output has seen enough, as `head` has. Python must not try to flush it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except OSError as error:
        place = "" if error.filename is None else f": {error.filename}"
        return _say(f"{error.strerror or error}{place}", Exit.FAILURE)


def _in_our_style(error: click.UsageError) -> str:
    """A message about usage as all messages are written here: click writes its own otherwise."""
    from click import NoSuchOption

    from leasehold.cli.command import meant
    from leasehold.cli.program import program

    if isinstance(error, NoSuchOption):
        near = meant(sorted(error.possibilities or ()))
        told = f"there is no option {error.option_name!r}{near}"
        if error.ctx is not None and error.ctx.info_name == "enqueue" and not near:
            told += f"; put `--` before a command: {program()} enqueue -- COMMAND"
        return told
    text = error.format_message()
    if text.startswith(OF_CLICK):
        return f"{text[0].lower()}{text[1:].removesuffix('.')}"
    return text


def _is_text(argument: str) -> bool:
    # Bytes that are no UTF-8 come as lone surrogates, which neither JSON nor a store can hold.
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _say(message: str, code: int) -> int:
    from leasehold.cli.safe import safe
    from leasehold.cli.wrapping import wrapped

    sys.stderr.write(f"{wrapped(f'{program()}: {safe(message, lines=True)}', sys.stderr)}\n")
    return code
