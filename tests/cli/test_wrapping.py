"""Sentences on a terminal are broken between words; into a pipe they stay one line."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from leasehold.cli.wrapping import wrapped

SENTENCE = (
    "there is no store at leasehold.db: create one with `queuectl init`, or name another with "
    "--store"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "60")
    return Terminal()


def test_lines_fit_and_lose_no_word(terminal: Terminal) -> None:
    lines = wrapped(SENTENCE, terminal).split("\n")
    assert max(map(len, lines)) <= 60
    assert " ".join(lines) == SENTENCE


def test_further_lines_stand_below_the_first(terminal: Terminal) -> None:
    first, *others = wrapped(SENTENCE, terminal, indent=10).split("\n")
    assert len(first) <= 50
    assert all(line.startswith(" " * 10) and len(line) <= 60 for line in others)


def test_a_long_word_and_a_traceback_stay_whole(terminal: Terminal) -> None:
    path = "/srv/" + "x" * 80
    assert wrapped(f"see {path}", terminal) == f"see\n{path}"
    assert wrapped(f'  File "{path}"', terminal) == f'  File "{path}"'


def test_a_pipe_gets_one_line() -> None:
    assert wrapped(SENTENCE, io.StringIO()) == SENTENCE


def test_wide_characters_take_two_columns(terminal: Terminal) -> None:
    sentence = "no worker serves queue '日本語のキュー', where four jobs wait: start one"
    lines = wrapped(sentence, terminal).split("\n")
    assert max(map(cell_len, lines)) <= 60
    assert " ".join(lines) == sentence


def test_a_long_text_of_wide_characters_is_broken_anywhere(terminal: Terminal) -> None:
    error = "エラーが発生しました" * 20
    first, *others = wrapped(error, terminal, indent=10).split("\n")
    assert cell_len(first) <= 50
    assert max(map(cell_len, others)) <= 60
    assert "".join([first, *(line.strip() for line in others)]) == error
