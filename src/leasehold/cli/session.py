"""The state of a command: the store, and the form of its answer."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from leasehold.cli.program import program
from leasehold.errors import StoreUnavailableError
from leasehold.urls import sqlite_path

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

NAMED_MAX: Final = 5
DEFAULT_STORE: Final = "leasehold.db"
DEFAULT_SCHEMA: Final = "leasehold"
FORMATS: Final = ("table", "json", "jsonl", "csv")

F = TypeVar("F", bound=Callable[..., Any])


class Session:
    """One run of the command line."""

    def __init__(self) -> None:
        given = os.environ.get("LEASEHOLD_STORE")
        self.store_url = given or DEFAULT_STORE
        self.store_is_given = bool(given)
        """Whether a person named the store."""
        self.format = "table"
        self.utc = False
        """Whether times for people are shown in UTC, not in the local zone."""
        self.tells_of_new_store = True
        """Whether to say that a file was made: its name may be a misspelt one."""

    @property
    def shown_store(self) -> str:
        """The store for messages: a file from the root on; of a server's URL neither user, password
        nor parameters, except for a schema of its own.
        """
        path = sqlite_path(self.store_url)
        if path is not None:
            return os.path.abspath(path)
        scheme, _, rest = self.store_url.partition("://")
        if scheme in ("sqlite", "memory"):
            return self.store_url
        place, _, query = rest.partition("?")
        shown = f"{scheme}://{place.rpartition('@')[2]}"
        schemas = [pair[7:] for pair in query.split("&") if pair.startswith("schema=")]
        is_own = scheme.startswith("postgres") and schemas and schemas[-1] != DEFAULT_SCHEMA
        return f"{shown} (schema {schemas[-1]})" if is_own else shown

    @property
    def last_job_store(self) -> str:
        """The store as `@last` knows it: the same file from every folder, and no password."""
        path = sqlite_path(self.store_url)
        return self.shown_store if path is None else os.path.realpath(path)

    @cached_property
    def queue(self) -> TaskQueue:
        """The store, which must be there: a look at nothing makes no file."""
        check_there(self.store_url)
        return self.new_queue

    @cached_property
    def new_queue(self) -> TaskQueue:
        """The store, which is made if need be."""
        return self._open()

    def _open(self, **options: Any) -> TaskQueue:
        from leasehold.queue.facade import TaskQueue

        path = sqlite_path(self.store_url)
        is_new = path is not None and not os.path.exists(path)
        queue = TaskQueue(self.store_url, num_workers=0, actor=actor(), **options)
        click.get_current_context().find_root().call_on_close(queue.shutdown)
        if is_new and self.tells_of_new_store:
            self.tell(f"created a new store: {path}")
        return queue

    def tell(self, message: str) -> None:
        """Say something to the person, not to the program that reads the output."""
        from leasehold.cli.safe import safe
        from leasehold.cli.times import with_local_times
        from leasehold.cli.wrapping import wrapped

        click.echo(wrapped(safe(with_local_times(message), lines=True), sys.stderr), err=True)

    def refuse(self, message: str) -> None:
        """Say that one of several things failed, as the error of a whole command is said."""
        self.tell(f"{program()}: {message}")


def actor() -> str:
    """Who gives the orders, for audit records."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):  # no such user, as in a container
        return "cli"


def check_there(url: str) -> None:
    """Raise where a URL names a file that is not there."""
    path = sqlite_path(url)
    if path is not None and not os.path.exists(path):
        raise StoreUnavailableError(
            f"there is no store at {os.path.abspath(path)}: create one with `queuectl init`, or "
            "name another with --store" + _others_here(path),
            is_transient=False,
        )


def is_interactive() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            session = ctx.ensure_object(Session)
            setattr(session, name, value)
            session.store_is_given |= name == "store_url"

    return callback


def common_options(command: F) -> F:
    """The options that every command understands, before its name or after it."""
    store = click.option(
        "--store",
        metavar="URL",
        expose_value=False,
        callback=_keep("store_url"),
        help="A file, or a store URL. Else LEASEHOLD_STORE, else ./leasehold.db.",
    )
    output = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        expose_value=False,
        callback=_keep("format"),
        help="The output format.",
    )
    utc = click.option(
        "--utc",
        is_flag=True,
        default=None,
        expose_value=False,
        callback=_keep("utc"),
        help="Show times in UTC, not in the local zone.",
    )
    return store(output(utc(command)))


pass_session = click.make_pass_decorator(Session, ensure=True)


def _has_run(path: Path) -> bool:
    """Whether a store was opened there: such a file must not be opened to look into it."""
    return path.with_name(path.name + "-run").is_dir()


def _others_here(path: str) -> str:
    """A store in the same folder: an application may call its store otherwise."""
    there = [each for each in sorted(Path(path).parent.glob("*.db")) if _has_run(each)]
    if not there:
        return ""
    count = "is one" if len(there) == 1 else f"are {len(there)}"
    more = f" and {len(there) - NAMED_MAX} more" if len(there) > NAMED_MAX else ""
    named = ", ".join(f"--store {each}" for each in there[:NAMED_MAX])
    return f"; there {count} here: {named}{more}"
