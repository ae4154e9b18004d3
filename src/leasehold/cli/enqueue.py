"""`enqueue`: submit commands, tasks, documents and whole files of them."""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections.abc import Mapping
from typing import IO, Any, Final

import click
import msgspec

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.jobdocument import JobDocument, read_document
from leasehold.cli.jobref import job_id_of
from leasehold.cli.lastjob import remember
from leasehold.cli.options import DURATION, JSON, PRIORITY, TAG
from leasehold.cli.output import Column, emit, emit_one, jobs_counted
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.tasknames import TypedTaskNames
from leasehold.core.model.phrases import counted
from leasehold.documents.records import document_of

ERRORS_SHOWN_MAX = 20
LINE_COLUMNS = (
    Column("line", "LINE", right=True),
    Column("id", "JOB"),
    Column("is_duplicate", "DUPLICATE"),
    Column("error", "ERROR"),
)

_TASK_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
"""package.module:function"""


@command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[JSON | -- PROGRAM [ARG]...]")
@click.option("--command", "-c", help="A command for the shell.")
@click.option("--task", "-t", help="A task by its name, such as package.module:function.")
@click.option("--args", type=JSON, help="The task's arguments, a JSON list.")
@click.option("--kwargs", type=JSON, help="The task's named arguments, a JSON object.")
@click.option("--payload", type=JSON, help="Any JSON for the task, in place of arguments.")
@click.option("--file", "-f", type=click.File("rb"), help="JSON lines, a job in each; - for stdin.")
@click.option("--partial", is_flag=True, help="With --file: store the good lines, report the bad.")
@click.option("--id", help="The job's id, which must be unique.")
@click.option("--queue", "-q", help="The queue.  [default: default]")
@click.option(
    "--priority",
    "-p",
    type=PRIORITY,
    help="0-100, low, medium, high or critical.  [default: medium]",
)
@click.option("--max-retries", type=int, help="Retries after the first attempt.  [default: 3]")
@click.option("--timeout", type=DURATION, help="How long one attempt may take.")
@click.option("--delay", type=DURATION, help="How long to wait before the first attempt.")
@click.option("--run-at", metavar="TIME", help="The earliest start.")
@click.option("--deadline", metavar="TIME", help="When the job should be done.")
@click.option("--start-within", type=DURATION, help="Cancel it if it has not started by then.")
@click.option("--result-ttl", type=DURATION, help="How long its result is kept.")
@click.option("--key", "idempotency_key", help="An idempotency key: one key, one job.")
@click.option("--depends-on", multiple=True, metavar="JOB", help="A dependency; may be repeated.")
@click.option("--on-dependency-failure", type=click.Choice(["cancel", "fail", "ignore"]),
              help="If a dependency fails.  [default: cancel]")  # fmt: skip
@click.option("--meta", type=TAG, multiple=True, help="A tag; may be repeated.")
@click.option("--parent", "parent_id", metavar="JOB", help="The job it belongs to.")
@click.option("--limit-key", metavar="KEY", help="The tenant, for limits per key.")
@click.option("--cwd", type=click.Path(), help="The folder of a command.  [default: the worker's]")
@click.option("--env", multiple=True, metavar="NAME=VALUE",
              help="A variable for a command; may be repeated.")  # fmt: skip
@click.option("--stdin", help="Standard input of a command.")
@click.option("--wait", "-w", is_flag=True, help="Wait for the job; exit with 7 if it failed.")
@click.option("--wait-timeout", type=DURATION, help="Stop waiting after this; exit with 124.")
def enqueue(
    session: Session,
    /,
    *,
    words: tuple[str, ...],
    file: IO[bytes] | None,
    partial: bool,
    wait: bool,
    wait_timeout: float | None,
    **given: Any,
) -> None:
    """Submit jobs: commands, tasks, files.

    --command runs in a shell. The words after -- run without one: pass untrusted values there, or
    in --env and --stdin. Only workers started with --allow-commands run commands.

    A JSON document has fields named like the options: id, command (text for the shell, or a list),
    task, args, kwargs, payload, queue, priority, max_retries, timeout, delay, run_at, deadline,
    start_within, result_ttl, idempotency_key, depends_on, on_dependency_failure, metadata,
    parent_id, limit_key, cwd, env, stdin. Options are defaults for missing fields.

    With --file, all lines are stored in one write; if one is bad, none is. All jobs are held in
    memory, and other writers wait for about two seconds per 100,000 jobs. --partial stores the good
    lines in batches of 1000 and exits with 8 if some were bad.

    \b
    Examples:
      queuectl enqueue --command "sleep 2" --priority high --timeout 10s
      queuectl enqueue -- convert in.png out.jpg
      queuectl enqueue '{"id": "job1", "command": "echo hi"}'
      queuectl enqueue --task tasks:send --args '["a@b.c"]' --wait
      generate-jobs | queuectl enqueue --file - --queue mail
    """
    fields = _fields(given)
    if file is not None:
        _refuse_with_file(words, fields, wait=wait or wait_timeout is not None)
        _take_file(session, file, fields, partial=partial)
        return
    if partial:
        raise click.UsageError("--partial requires --file")
    document = _document(words, fields)
    document.new_job()  # Faults of the job are told before a store is made.
    queue = session.new_queue
    if document.task is not None:
        TypedTaskNames(queue).check(document.task)
    if document.depends_on is not None:
        needed = document.depends_on
        each = [needed] if isinstance(needed, str) else needed
        document.depends_on = [job_id_of(session, one) for one in each]
    job = document.new_job()
    [handle] = queue.submit_many([job])
    remember(session.last_job_store, handle.id)
    if handle.is_duplicate:
        session.tell(f"this key was used before: its job is {handle.id}")
    if wait or wait_timeout is not None:
        from leasehold.cli.wait import show_end, wait_for_ends

        [ended] = wait_for_ends(session, [handle.id], wait_timeout)
        show_end(session, queue, ended, is_duplicate=handle.is_duplicate)
        return
    if session.format == "table":
        click.echo(safe(handle.id))
    else:
        status = queue.get_status(handle)
        emit_one(
            session,
            {"id": handle.id, "status": status, "is_duplicate": handle.is_duplicate},
        )


def _fields(given: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of a document; options that were not given are left out."""
    meta, env = given.pop("meta"), given.pop("env")
    if given["cwd"] is not None:
        given["cwd"] = os.path.abspath(given["cwd"])
    given["depends_on"] = list(given["depends_on"])
    given["metadata"] = dict(meta)
    given["env"] = dict(_variable(text) for text in env)
    fields = {name: value for name, value in given.items() if value not in (None, [], {})}
    # An empty list or null is a payload like any other.
    for name in ("payload", "args", "kwargs"):
        context = click.get_current_context()
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            fields[name] = given[name]
    return fields


def _variable(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.BadParameter(
            f"{text!r} is not a variable: write NAME=VALUE", param_hint="--env"
        )
    return name, value


def _document(words: tuple[str, ...], fields: Mapping[str, Any]) -> JobDocument:
    if words and ("command" in fields or "task" in fields):
        quoted = "; quote a command of several words: --command 'echo hi'"
        raise click.UsageError(
            "give one thing to run: a document, a program, --command or --task"
            + (quoted if "command" in fields else "")
        )
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        document = read_document(words[0])
        document.fill_in(fields)
        return document
    if len(words) == 1 and " " in words[0]:
        raise click.UsageError(
            f"is {words[0]!r} for the shell? Then use --command; or give the words after -- "
            "separately: -- ls -l"
        )
    if len(words) == 1 and _TASK_NAME.fullmatch(words[0]) and shutil.which(words[0]) is None:
        raise click.UsageError(
            f"is {words[0]!r} a task? Then use --task; no program of that name is installed here"
        )
    if not words and "command" not in fields and "task" not in fields:
        raise click.UsageError("nothing to run: give --command, -- PROGRAM, --task, JSON or --file")
    said = {**fields, "command": list(words)} if words else fields
    try:
        return msgspec.convert(said, JobDocument)
    except msgspec.ValidationError as error:
        raise click.UsageError(str(error)) from None


def _refuse_with_file(words: tuple[str, ...], fields: Mapping[str, Any], *, wait: bool) -> None:
    if words or "command" in fields or "task" in fields or "id" in fields:
        raise click.UsageError("--file contains the jobs: give no other job, and no --id")
    if wait:
        raise click.UsageError("--wait is for one job: use `wait` with the ids")


def _take_file(
    session: Session, file: IO[bytes], defaults: Mapping[str, Any], *, partial: bool
) -> None:
    from leasehold.cli.intake import TakenLine, counting, read_lines, submit_all, submit_each

    # A hundred thousand jobs in memory are no garbage, and looking through them takes longer than
    # reading them.
    gc.disable()
    stored = duplicates = failed = 0

    def noted(taken: TakenLine) -> dict[str, Any]:
        nonlocal stored, duplicates, failed
        if taken.error is not None:
            failed += 1
            if failed <= ERRORS_SHOWN_MAX:
                session.tell(f"line {taken.line}: {taken.error}")
        else:
            stored += 1
            duplicates += taken.is_duplicate
        return document_of(taken)

    with counting(file, "submitting") as shown:
        lines = shown(read_lines(file, session.new_queue, defaults))
        submit = submit_each if partial else submit_all
        documents = (noted(taken) for taken in submit(session.new_queue, lines))
        if session.format == "table":
            for _ in documents:
                pass
        else:
            emit(session, documents, LINE_COLUMNS)
    if failed > ERRORS_SHOWN_MAX:
        session.tell(f"... and {failed - ERRORS_SHOWN_MAX:,} more")
    if session.format == "table" and (stored or not failed):
        again = f", {duplicates:,} of them known by their keys" if duplicates else ""
        click.echo(f"submitted {jobs_counted(stored)}{again}")
    if failed and not stored:
        session.tell(f"{counted(failed, 'bad line')}: nothing was stored")
        raise click.exceptions.Exit(Exit.FAILURE if partial else Exit.USAGE)
    if failed:
        session.tell(f"{counted(failed, 'bad line')} left out")
        raise click.exceptions.Exit(Exit.PARTIAL)
