"""The command line on top of a service, with tokens that may do little."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.cli.main import run
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.tokens import Role
from service.conftest import Service

Command = Callable[..., Any]


@pytest.fixture
def far(memory_service: Service, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command that must succeed, by a new token with these roles; its answer."""

    def answer(roles: tuple[Role, ...], queues: tuple[str, ...] | None, *words: str) -> Any:
        secret = memory_service.token(*roles, queues=queues)
        url = memory_service.url.replace("://", f"://{secret}@")
        capsys.readouterr()
        assert run(["--store", url, "-o", "json", *words]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return answer


def test_a_token_for_some_queues_names_its_jobs(memory_service: Service, far: Command) -> None:
    memory_service.store.submit(
        [Draft(id=each, task="work", queue=each[:4]) for each in ("mine:job-17", "them:job-17")]
    )
    for named in ("mine:job-17", "job-17"):
        assert far(("producer",), ("mine",), "why", named)["id"] == "mine:job-17"
    assert far(("producer",), ("mine",), "show", "mine:job-17")["job"]["queue"] == "mine"
    with pytest.raises(AssertionError, match="there is no job 'them:job-17'"):
        far(("producer",), ("mine",), "show", "them:job-17")


def test_a_token_for_some_queues_sees_their_figures(memory_service: Service, far: Command) -> None:
    store = memory_service.store
    store.submit([Draft(id=each, task="work", queue=each) for each in ("red", "blue", "grey")])
    for lease in store.exchange(
        request=LeaseRequest(worker="w", queues=("red", "blue"), limit=2)
    ).leases:
        failed = Fail(JobError("Boom", "no"), retryable=False)
        store.exchange([Settlement(lease.job_id, lease.version, failed)])
    own = ("red", "grey")
    for words in (("stats",), ("stats", "--totals"), ("stats", *own)):
        rows = far(("observer",), own, *words)
        assert sorted(row["queue"] for row in rows) == ["grey", "red"]
    for words in (("status",), ("top", "--once")):
        seen = far(("observer",), own, *words)
        assert (seen["jobs"]["dead"], seen["jobs"]["pending"]) == (1, 1)
        assert [each["queue"] for each in seen["failures"]] == ["red"]
        everybody = far(("observer",), None, *words)
        assert everybody["jobs"]["dead"] == 2


def test_an_observer_may_ask_the_doctor(far: Command) -> None:
    assert far(("observer",), None, "doctor")
