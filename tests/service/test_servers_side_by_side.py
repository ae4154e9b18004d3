"""Several server processes on one SQLite store: whichever is asked, it is one service."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from leasehold.connect import connect
from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM

WAIT = 60.0


class ServerProcess:
    """One server, and a client of it."""

    def __init__(self, path: Path, secret: str) -> None:
        self.process = subprocess.Popen(
            (
                *(sys.executable, "-m", "leasehold.cli", "serve", "--port", "0"),
                *("-o", "jsonl", "--store", f"sqlite:///{path}?durability=normal"),
            ),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        address = json.loads(self.process.stdout.readline())["address"]
        self.client = httpx.Client(
            base_url=f"{address}/api/v1",
            headers={"Authorization": f"Bearer {secret}"},
            timeout=WAIT,
            trust_env=False,
        )

    def post(self, path: str, **body: Any) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def end(self, number: signal.Signals) -> None:
        self.client.close()
        self.process.send_signal(number)
        self.process.wait(WAIT)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    path = tmp_path / "jobs.db"
    secret = new_token_secret(SYSTEM)
    store = connect(str(path))
    store.create_token(TokenDraft(name="t", roles=("admin",)), digest_of(secret), actor="test")
    store.close()
    servers = [ServerProcess(path, secret) for _ in range(2)]
    yield servers
    for each in servers:
        if each.process.returncode is None:
            each.end(signal.SIGTERM)


def test_each_step_of_a_job_by_another_server(servers: list[ServerProcess]) -> None:
    one, other = servers
    job_id = one.post("/jobs", task="mail")["id"]
    [lease] = other.post("/leases", worker="w", wait_seconds=WAIT)["leases"]
    assert lease["job_id"] == job_id
    held = {"version": lease["version"], "secret": lease["secret"]}
    one.post(f"/jobs/{job_id}/renew", **held, worker="w")
    other.post(f"/jobs/{job_id}/complete", **held, result="sent")
    assert one.client.get(f"/jobs/{job_id}").json()["job"]["status"] == "completed"


def test_a_job_wakes_who_waits_at_another_server(servers: list[ServerProcess]) -> None:
    one, other = servers
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.post, "/leases", worker="w", wait_seconds=WAIT)
        job_id = one.post("/jobs", task="mail")["id"]
        [lease] = waiting.result(WAIT)["leases"]
    assert lease["job_id"] == job_id


def test_one_goes_on_where_another_was_killed(servers: list[ServerProcess]) -> None:
    one, other = servers
    job_id = one.post("/jobs", task="mail")["id"]
    [lease] = one.post("/leases", worker="w", wait_seconds=0)["leases"]
    one.end(signal.SIGKILL)
    held = {"version": lease["version"], "secret": lease["secret"]}
    other.post(f"/jobs/{job_id}/complete", **held)
    assert other.client.get(f"/jobs/{job_id}").json()["job"]["status"] == "completed"
