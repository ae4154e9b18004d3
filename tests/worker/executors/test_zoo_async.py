"""Hostile tasks on the shared event loop: each ends in one outcome, and the worker goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.zoo.members import Member, members_of
from support.zoo.visit import Zoo

MEMBERS = members_of("async")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zoo]:
    """One worker for all members; at the end it has to obey SIGTERM and leave nothing running."""
    zoo = Zoo(tmp_path_factory.mktemp("zoo"), "async")
    yield zoo
    zoo.close()


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_hostile_task_ends_and_every_slot_goes_on(zoo: Zoo, member: Member) -> None:
    zoo.visit(member)
