"""`demo` and `bench`: on throw-away stores, of which nothing is left."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.terminal import Terminal
from leasehold.cli.exits import Exit
from leasehold.cli.main import run
from leasehold.cli.showcase import steps
from leasehold.cli.showcase.stage import ShowcaseStage
from leasehold.cli.showcase.step import ShowcaseStep, StepFailedError


def test_every_step_comes_out_as_promised(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    done = shell.run("demo", "-o", "json")
    assert {played["step"]: played["seen"] for played in done.json if not played["ok"]} == {}
    assert done.code == Exit.OK
    assert [played["step"] for played in done.json] == [step.name for step in steps.STEPS]
    assert [list(played) for played in done.json] == [
        ["step", "explanation", "ok", "seen", "seconds"]
    ] * len(steps.STEPS)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_step_that_fails_is_seen(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(stage: ShowcaseStage) -> str:
        raise StepFailedError("add(2, 3) returned 6\x1b[2J")

    [first, *_] = steps.STEPS
    monkeypatch.setattr(steps, "STEPS", (first._replace(play=broken), first))
    assert run(["demo"]) == Exit.FAILURE
    told = capsys.readouterr()
    assert "FAILED  StepFailedError: add(2, 3) returned 6\\x1b[2J\n" in told.out
    assert told.err.startswith("1 of 2 steps in")


def test_sentences_are_broken_between_words(shell: Shell) -> None:
    command = shell.command("demo", "--only", "commands")
    with Terminal(command, cwd=shell.folder, env=shell.environment, columns=60) as terminal:
        assert terminal.end() == Exit.OK
        [first, second] = [line for line in terminal.text.splitlines() if line.startswith("  ")]
    assert first.startswith("  ok  no shell touched")
    assert second.startswith("      ")
    assert f"{first} {second.strip()}".endswith("the one that took too long was killed")


@pytest.mark.parametrize("step", steps.STEPS, ids=lambda step: step.name)
def test_no_step_needs_another(step: ShowcaseStep, tmp_path: Path) -> None:
    stage = ShowcaseStage(str(tmp_path))
    assert step.play(stage)
    stage.close()


def test_an_unknown_step(shell: Shell) -> None:
    done = shell.run("demo", "--only", "nonsense")
    assert done.code == Exit.USAGE
    assert "there is no step 'nonsense'; there are submit, " in done.err


def test_bench_measures_and_leaves_nothing(shell: Shell) -> None:
    done = shell.ok("bench", "--jobs", "100", "--durability", "normal", "-o", "json")
    assert [(each["measure"], each["unit"]) for each in done.json] == [
        ("submit_one_by_one", "jobs/s"),
        ("submit_in_batches", "jobs/s"),
        ("drain", "jobs/s"),
        ("pick_up_p50", "ms"),
        ("pick_up_p99", "ms"),
    ]
    assert all(each["value"] > 0 and each["durability"] == "normal" for each in done.json)
    assert list(shell.folder.iterdir()) == []


def test_bench_says_how_far_it_is(shell: Shell) -> None:
    with Terminal(
        shell.command("bench", "--jobs", "10"), cwd=shell.folder, env=shell.environment
    ) as terminal:
        assert terminal.end() == Exit.OK
        assert "pick_up_p99" in terminal.text
        assert "of 4:" not in terminal.text, "the line is taken away when all is measured"
        # The first steps may be over before the line is drawn once.
        assert b"4 of 4: 10 jobs" in terminal.received


def test_a_system_that_refuses_is_a_message_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/full")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert run(["demo"]) == Exit.FAILURE
    assert capsys.readouterr().err == "leasehold: No space left on device: /full\n"
