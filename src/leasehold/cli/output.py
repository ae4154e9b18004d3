"""Answers: a table for people; JSON, JSON lines or CSV for programs."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import click
import msgspec

from leasehold.cli.layout import (
    Breadth,
    Fit,
    by_their_ends,
    cut_in_the_middle,
    fits,
    laid_out,
)
from leasehold.cli.safe import safe, safe_json
from leasehold.cli.session import Session
from leasehold.cli.times import time_text, with_local_times
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.phrases import counted

Document = Mapping[str, Any]

CELL_LENGTH_MAX: Final = 200
COLOURS: Final = {
    "completed": "green",
    "alive": "green",
    "active": "green",
    "failed": "yellow",
    "late": "yellow",
    "silent": "yellow",
    "overdue": "yellow",
    "paused": "yellow",
    "dead": "red",
    "gone": "red",
    "lost": "red",
    "running": "cyan",
    "cancelled": "bright_black",
}
"""Of statuses, states and outcomes, wherever they are shown to people."""
COLOURED: Final = frozenset({"status", "state", "standing", "outcome", "before", "after"})
"""The fields that hold one."""
OUR_WORDS: Final = frozenset({"reason", "message", "given_up"})
"""The fields that hold messages of Leasehold, with moments in them."""


class Column(NamedTuple):
    """One column of a table: which field of a document it shows, under which heading, and how."""

    field: str
    heading: str
    show: Callable[[Any], str] = str
    right: bool = False
    fit: Fit = "wrap"
    spare: int = 0
    """Not 0 if a narrow terminal may do without it; the highest is left out first."""
    least: int = 0
    """Below this width it says too little, and others are left out instead."""


def emit(
    session: Session, documents: Iterable[Document], columns: Sequence[Column], *, nothing: str = ""
) -> None:
    """Print a list. The columns are for the table; programs get every field.

    JSON lines are printed as they come; `nothing` is told when a table would be empty.
    """
    if session.format == "jsonl":
        for document in documents:
            click.echo(json_text(document))
    elif session.format == "json":
        click.echo(json_text(list(documents), indent=2))
    elif session.format == "csv":
        _print_csv(documents)
    else:
        print_table(session, list(documents), columns, nothing)


def emit_one(
    session: Session, document: Document, *, show: Callable[[], None] | None = None
) -> None:
    """Print one document; as a table, one field a line, unless `show` knows better."""
    if session.format == "json":
        click.echo(json_text(document, indent=2))
    elif session.format == "jsonl":
        click.echo(json_text(document))
    elif session.format == "csv":
        _print_csv([document])
    elif show is not None:
        show()
    else:
        print_fields(document)


def print_fields(document: Document) -> None:
    """One field a line, for people; empty fields are left out."""
    shown = {name: value for name, value in document.items() if value not in (None, {}, [], (), "")}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        text = wrapped(_told(name, cell(value)), sys.stdout, indent=width + 2)
        # Into a pipe click takes the colours away.
        coloured = click.style(text, fg=_colour(name, text))
        click.echo(f"{name.replace('_', ' '):<{width}}  {coloured}")


def _told(field: str, text: str) -> str:
    """A text; moments in our own messages as people read them, other people's texts unchanged."""
    return with_local_times(text) if field in OUR_WORDS else text


def json_text(document: Any, *, indent: int = 0) -> str:
    """A document as JSON that no terminal stumbles over. Times are UTC, in ISO 8601."""
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        # A file name that is no UTF-8: only the standard library's JSON has a way to write it.
        import json

        return safe_json(json.dumps(msgspec.to_builtins(document), indent=indent or None))
    return safe_json((msgspec.json.format(data, indent=indent) if indent else data).decode())


def jobs_counted(count: int) -> str:
    """So many jobs, in words.

    >>> jobs_counted(1), jobs_counted(1200)
    ('1 job', '1,200 jobs')
    """
    return counted(count, "job")


def named(name: str, error: Exception) -> str:
    """An error about one of several things, with its name unless the message has it.

    >>> named("mail", ValueError("no such queue"))
    'mail: no such queue'
    >>> named("mail", ValueError("there is no queue 'mail'"))
    "there is no queue 'mail'"
    """
    return str(error) if name in str(error) else f"{name}: {error}"


def cell(value: Any) -> str:
    """A value as one line for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if value and isinstance(value, list | tuple) and isinstance(value[0], datetime):
        return ", ".join(map(time_text, value))
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    text = value if isinstance(value, str | int) else json_text(value)
    return safe(str(text), limit=CELL_LENGTH_MAX)


def print_table(
    session: Session, documents: Sequence[Document], columns: Sequence[Column], nothing: str
) -> None:
    """A list for people."""
    if not documents:
        session.tell(nothing or "nothing found")
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    # Text, never str: rich would read square brackets in it as markup.
    rows = [
        [Text(text := _shown(each, row.get(each.field)), _colour(each.field, text) or "")
         for each in columns]
        for row in documents
    ]  # fmt: skip
    terminal = console()
    if not fits(_breadths(columns, rows), terminal.width):
        for place, column in enumerate(columns):
            if column.fit == "id":
                short = by_their_ends([row[place].plain for row in rows])
                for row, text in zip(rows, short, strict=True):
                    row[place] = Text(text)
    shown = laid_out(_breadths(columns, rows), terminal.width)
    for place, width in shown.items():
        column = columns[place]
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=column.fit in ("cut", "middle"),
            overflow="ellipsis" if column.fit in ("cut", "middle") else "fold",
        )
        if column.fit == "middle":
            for row in rows:
                row[place] = Text(cut_in_the_middle(row[place].plain, width))
    for row in rows:
        table.add_row(*(row[place] for place in shown))
    terminal.print(table)


def _colour(field: str, text: str) -> str | None:
    return COLOURS.get(text) if field in COLOURED else None


def _breadths(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[Breadth]:
    return [_breadth(each, [row[n] for row in rows]) for n, each in enumerate(columns)]


def _breadth(column: Column, cells: Sequence[Any]) -> Breadth:
    heading = len(column.heading)
    natural = max(heading, *(each.cell_len for each in cells))
    # A number that is cut or continued on the next line would be a different number.
    fit: Fit = "keep" if column.right else column.fit
    return Breadth(natural, max(heading, column.least), fit, column.spare)


def _shown(column: Column, value: Any) -> str:
    if column.show is str:
        return _told(column.field, cell(value))
    return "-" if value is None else safe(column.show(value), limit=CELL_LENGTH_MAX)


def console(*, stderr: bool = False) -> Any:
    """A rich console. Into a pipe it neither colours nor breaks lines."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 100_000
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def _print_csv(documents: Iterable[Document]) -> None:
    import csv

    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    on_terminal = sys.stdout.isatty()
    heading: list[str] | None = None
    for document in documents:
        if heading is None:
            heading = list(document)
            writer.writerow(heading)
        writer.writerow([_plain(document.get(name)) for name in heading])
        text = line.getvalue()
        click.echo(safe(text, lines=True, limit=None) if on_terminal else text, nl=False)
        line.seek(0)
        line.truncate()


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, date):  # or a datetime, which is one
        return str(msgspec.to_builtins(value))
    return value if isinstance(value, str) else json_text(value)
