"""The root command: help, version, exit codes, where the store is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import click
import pytest

from cli.conftest import Shell
from cli.seed import run_here
from leasehold import __version__, errors
from leasehold.cli.commands import COMMANDS
from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.root import load
from leasehold.cli.session import Session


def test_version(shell: Shell) -> None:
    assert shell.ok("--version").out == f"leasehold {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_each_says_of_itself(name: str) -> None:
    command = load(COMMANDS[name])
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ").strip() == COMMANDS[name].help


def test_every_command_explains_itself(shell: Shell) -> None:
    listed = shell.ok("--help").out
    for name, entry in COMMANDS.items():
        assert name in listed
        assert shell.ok(name, "--help").out.startswith(f"Usage: leasehold {name}"), entry


def test_every_leaf_command_takes_the_common_options() -> None:
    def leaves(command: click.Command) -> list[click.Command]:
        if isinstance(command, click.Group):
            return [leaf for each in command.commands.values() for leaf in leaves(each)]
        return [command]

    for entry in COMMANDS.values():
        for leaf in leaves(load(entry)):
            names = {option for parameter in leaf.params for option in parameter.opts}
            assert {"--store", "--output"} <= names, leaf.name


def test_a_look_at_a_store_that_is_not_there_makes_none(shell: Shell) -> None:
    done = shell.run("status")
    assert done.code == Exit.STORE
    assert done.out == ""
    assert f"there is no store at {shell.folder / 'leasehold.db'}" in done.err
    assert list(shell.folder.iterdir()) == []


def test_the_store_is_named_before_or_after_the_command(shell: Shell, tmp_path: Path) -> None:
    shell.ok("--store", "one.db", "init")
    shell.ok("init", "--store", str(tmp_path / "two.db"))
    assert (tmp_path / "one.db").exists()
    assert (tmp_path / "two.db").exists()


def test_a_file_that_is_no_store_is_refused_and_left_alone(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n" * 200)
    assert shell.run("status", "--store", "notes.txt").code == Exit.STORE
    assert (tmp_path / "notes.txt").read_text() == "buy milk\n" * 200


def test_an_unknown_command_or_option_is_a_usage_error(shell: Shell) -> None:
    assert shell.run("frobnicate").code == Exit.USAGE
    assert shell.run("status", "--frobnicate").code == Exit.USAGE
    assert shell.run("status", "-o", "xml").code == Exit.USAGE
    assert shell.run("status", "--store", "mysql://host/db").code == Exit.USAGE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.JobNotFoundError(""), Exit.NOT_FOUND),
        (errors.UnknownDependencyError(""), Exit.NOT_FOUND),
        (errors.InvalidJobError(""), Exit.USAGE),
        (errors.DuplicateJobError(""), Exit.CONFLICT),
        (errors.RateLimitedError(""), Exit.CONFLICT),
        (errors.StoreCorruptError(""), Exit.STORE),
        (errors.JobFailedError(""), Exit.JOB_FAILED),
        (errors.ResultTimeoutError(""), Exit.TIMEOUT),
        (errors.UnknownTaskError(""), Exit.USAGE),
        (errors.LeaseholdError(""), Exit.FAILURE),
    ],
)
def test_errors_have_their_exit_codes(error: errors.LeaseholdError, code: Exit) -> None:
    assert exit_for(error) is code


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_hinder_no_command(shell: Shell, closed: str) -> None:
    shell.ok("init")
    command = " ".join(shell.command("config", "set", "max_retries", "4"))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {closed}"],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4" in shell.ok("config", "get", "max_retries").out
    assert shell.ok("check").code == 0


def test_who_has_read_enough_of_the_output_is_not_told_off(shell: Shell) -> None:
    shell.ok("init")
    command = " ".join(shell.command("status", "-o", "json"))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} | head -c 1"],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_a_mistyped_command_is_guessed(shell: Shell) -> None:
    done = run_here(shell, "wroker", "start")
    assert done.code == Exit.USAGE
    assert "did you mean 'worker'?" in done.err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jobs.db", "/srv/shop/jobs.db"),
        ("sqlite:///jobs.db?durability=normal", "/srv/shop/jobs.db"),
        ("sqlite:////var/jobs.db", "/var/jobs.db"),
        ("memory://", "memory://"),
        ("postgresql://me:secret@db/jobs?sslmode=require", "postgresql://db/jobs"),
        ("postgresql://me:secret@db/jobs?schema=shop", "postgresql://db/jobs (schema shop)"),
        ("postgresql://db/jobs?schema=leasehold", "postgresql://db/jobs"),
        ("https://secret@host:8700", "https://host:8700"),
    ],
)
def test_a_store_is_shown_so_that_it_can_be_found_and_without_secrets(
    monkeypatch: pytest.MonkeyPatch, url: str, shown: str
) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/srv/shop")
    session = Session()
    session.store_url = url
    assert session.shown_store == shown


def test_a_store_that_is_not_there_is_told_with_those_that_are(shell: Shell) -> None:
    for name in ("b.db", "m.db"):
        shell.ok("--store", name, "init")
    done = shell.run("--store", "nosuch.db", "status")
    assert "there are 2 here: --store b.db, --store m.db" in done.err.replace(
        f"{shell.folder}/", ""
    )
