"""The worker in another language works: leases, runs, settles, and stops in order."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.conftest import WAIT, Service

WORKER = Path(__file__).parent.parent.parent / "examples/node/worker.mjs"
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(not NODE, reason="there is no Node here")


def test_a_worker_in_node(memory_service: Service) -> None:
    client = memory_service.client("producer")

    def ended(**job: Any) -> dict[str, Any]:
        job_id = client.post("/api/v1/jobs", json={"queue": "js", **job}).json()["id"]
        waited = client.get(f"/api/v1/jobs/{job_id}/wait", params={"timeout_seconds": 30}).json()
        found: dict[str, Any] = waited["job"]
        return found

    with subprocess.Popen(
        [NODE, str(WORKER)],
        env={
            "PATH": os.environ["PATH"],
            "LEASEHOLD_URL": memory_service.url,
            "LEASEHOLD_TOKEN": memory_service.token("consumer", name="node"),
            "LEASEHOLD_QUEUES": "js",
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            greeted = ended(task="greet", kwargs={"name": "Anna"})
            assert greeted["result"] == {"greeting": "Hello, Anna, from Node"}
            # What a task throws fails the attempt, with its name and message.
            failed = ended(task="greet", payload=None, max_retries=0)
            assert (failed["status"], failed["error"]["type"]) == ("dead", "TypeError")
        finally:
            worker.send_signal(signal.SIGTERM)
            told, _ = worker.communicate(timeout=WAIT)
    assert worker.returncode == 0
    assert told.splitlines()[-1].endswith("stops")


def test_a_token_that_is_not_good_ends_it(memory_service: Service) -> None:
    ended = subprocess.run(
        [NODE, str(WORKER)],
        env={"PATH": os.environ["PATH"], "LEASEHOLD_URL": memory_service.url},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert ended.returncode == 1
    assert "unauthenticated" in ended.stderr
