"""Lease versions of different stores, compared by which lease of its job each is."""

from __future__ import annotations

import pytest

from leasehold.core.model.lease import Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.testing.simulator.ranks import Ranks, asked_of


@pytest.fixture
def own() -> Ranks:
    ranks = Ranks()
    for version in (30, 41, 41):
        ranks.learn({"leases": [{"job_id": "a", "version": version}]})
    return ranks


def test_leases_of_a_job_are_numbered_as_they_come(own: Ranks) -> None:
    assert own.ranked({"job_id": "a", "version": 41}) == {"job_id": "a", "version": 2}
    assert own.ranked({"id": "a", "lease_version": 30}) == {"id": "a", "lease_version": 1}
    assert own.ranked([{"version": 30}], "a") == [{"version": 1}]
    assert own.ranked({"job_id": "b", "version": 41}) == {"job_id": "b", "version": 41}


def test_words_name_them_likewise(own: Ranks) -> None:
    told = "lease 30 of job a is lost: w holds it under version 41 now"
    assert own.ranked(told) == "lease 1 of job a is lost: w holds it under version 2 now"
    assert own.ranked("used lease version 30; the latest is 41", "a") == (
        "used lease version 1; the latest is 2"
    )


def test_what_was_asked_of_one_store_is_asked_of_another(own: Ranks) -> None:
    logged = Ranks()
    logged.learn({"leases": [{"job_id": "a", "version": 1}, {"job_id": "a", "version": 5}]})
    asked = {
        "settlements": [Settlement("a", 5, Complete(b"1"))],
        "renewals": [Renewal("a", 1, 60.0)],
    }
    given = asked_of(asked, logged, own)
    assert given["settlements"] == [Settlement("a", 41, Complete(b"1"))]
    assert given["renewals"] == [Renewal("a", 30, 60.0)]
    assert asked_of({"job_id": "a", "version": 5}, logged, own)["version"] == 41
    # A lease that this store has not granted is none of its leases.
    logged.learn({"leases": [{"job_id": "a", "version": 6}]})
    assert asked_of({"job_id": "a", "version": 6}, logged, own)["version"] not in (6, 30, 41)
