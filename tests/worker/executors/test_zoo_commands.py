"""Hostile commands: each ends in one outcome, and the worker goes on as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.zoo.commands import COMMANDS
from support.zoo.visit import Zoo


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    """One worker for all commands; at the end it has to obey SIGTERM and leave nothing running."""
    zoo = Zoo(tmp_path_factory.mktemp("zoo"), "command")
    yield zoo
    zoo.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_hostile_command_ends_and_every_slot_goes_on(zoo: Zoo, name: str) -> None:
    script, ends = COMMANDS[name]
    zoo.run_command(script, ends)


def test_a_command_that_removes_its_own_output_still_ends(zoo: Zoo) -> None:
    zoo.run_command('rm -rf "$(dirname "$(readlink /proc/$$/fd/1)")"', "completes")
