"""How leases that are narrowed to a group get round its parked keys."""

from __future__ import annotations

from leasehold.core.rules import group_rounds
from leasehold.core.rules.group_rounds import GroupRounds


def test_one_lease_that_sees_all_keys_is_a_whole_round() -> None:
    rounds = GroupRounds()
    assert not rounds.looked("g", None, took=True)
    assert not rounds.looked("g", None, took=False)
    assert rounds.after("g") is None


def test_a_round_goes_on_where_the_last_lease_stopped() -> None:
    rounds = GroupRounds()
    assert rounds.looked("g", -7, took=False)
    assert (rounds.after("g"), rounds.after("other")) == (-7, None)
    assert rounds.looked("g", -3, took=False)
    assert rounds.after("g") == -3


def test_a_round_without_any_job_is_the_last() -> None:
    rounds = GroupRounds()
    assert rounds.looked("g", -7, took=True)
    # Behind the one that was taken there may be another: once more round.
    assert rounds.looked("g", None, took=False)
    assert rounds.after("g") is None
    assert rounds.looked("g", -7, took=False)
    assert not rounds.looked("g", None, took=False)


def test_the_rounds_of_many_groups_are_forgotten_in_the_end() -> None:
    rounds = GroupRounds()
    for number in range(group_rounds.GROUPS_MAX + 1):
        rounds.looked(f"{number}", -7, took=False)
    assert rounds.after("0") is None
    assert rounds.after("1") == -7
