"""The pages about the command line say what the program does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from leasehold import Every, TaskQueue
from leasehold.cli import reference
from leasehold.cli.commands import COMMANDS
from leasehold.cli.exits import Exit
from leasehold.cli.main import run
from leasehold.core.model.tokens import TokenDraft
from leasehold.observe.alerts import RULES
from leasehold.observe.health import CHECKS

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(\w+)`")
ROW = re.compile(r"^\| `(.+?)` \| (.+) \|$", re.MULTILINE)


def test_the_reference_is_what_the_program_says() -> None:
    written = (DOCS / "cli-reference.md").read_text(encoding="utf-8")
    assert written == reference.page(), "python -m leasehold.cli.reference > docs/cli-reference.md"


def test_every_command_is_on_the_page() -> None:
    table = section("The commands")
    for name in COMMANDS:
        assert f"`{name}" in table, name


def test_every_exit_code_is_on_the_page() -> None:
    codes = re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)
    assert [int(code) for code in codes] == [code.value for code in Exit]


def test_every_check_of_the_doctor_is_on_the_page() -> None:
    named = NAMED.findall("".join(line.split("|")[1] for line in rows("doctor")))
    assert named == ["store", *(check.__name__ for check in (*CHECKS, *RULES))]


def section(heading: str) -> str:
    [text] = re.findall(rf"^##+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def rows(heading: str) -> list[str]:
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return lines[2:]


def fields() -> dict[str, list[str]]:
    """The fields that the page promises, by command."""
    text = section("Fields")
    words = {
        word: NAMED.findall(body)
        for word, body in re.findall(r"^A \*(\w+)\* is (.*?)\.$", text, re.MULTILINE | re.DOTALL)
    }
    found = {}
    for command, told in ROW.findall(text):
        known = [name for word, names in words.items() if f"*{word}*" in told for name in names]
        found[command] = known + NAMED.findall(told)
    return found


@pytest.mark.parametrize("command", fields())
def test_fields_are_those_on_the_page(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    queue = TaskQueue("leasehold.db", num_workers=0)
    queue.submit("t", job_id="job1")
    lease = queue.lease(wait=0)
    assert lease is not None
    queue.nack(lease, requeue=False)
    queue.schedule("nightly", "t", Every(60))
    queue.store.create_token(TokenDraft(name="ops", roles=("admin",)), "digest", actor="me")
    queue.shutdown()
    names = {"JOB": "job1", "SCHEDULE": "nightly", "PATH": "copy.db", "TOKEN": "ops"}
    names |= {"SOURCE": "leasehold.db", "TARGET": "moved.db"}
    arguments = [names.get(word, word) for word in command.split()]
    assert run(["-o", "json", *arguments]) == Exit.OK
    answer = json.loads(capsys.readouterr().out)
    document = answer[0] if isinstance(answer, list) else answer
    assert list(document) == fields()[command]
