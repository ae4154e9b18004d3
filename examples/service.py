"""The service at work: `make run` ends with it.

This process runs the tasks; `queuectl serve`, a process of its own, serves the same store over
HTTP; and jobs are submitted the way another machine or another language would, by plain requests.
On a terminal it goes on with a sample job every other second until Ctrl-C, so that there is
something to look at; elsewhere it ends when the first job has. Its store is removed with it.
"""

from __future__ import annotations

import itertools
import json
import logging
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from leasehold import TaskQueue

SAMPLE_SECONDS = 2.0

logging.getLogger("leasehold").addHandler(logging.NullHandler())
store = Path(tempfile.mkdtemp(prefix="leasehold-service-")) / "jobs.db"
queue = TaskQueue(store, num_workers=2)
queuectl = [str(Path(sys.executable).with_name("queuectl")), "--store", str(store)]


@queue.task(name="invoice")
def invoice(customer: str, cents: int) -> str:
    return f"{customer} owes {cents / 100:.2f}"


@contextmanager
def service() -> Iterator[str]:
    """Serve the store on a free port; yields the address of its API."""
    command = [*queuectl, "-o", "jsonl", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"] + "/api/v1"
        finally:
            process.terminate()


def call(url: str, token: str, body: dict[str, Any] | None = None) -> Any:
    """One request with JSON in and out: POST if there is a body."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def one_job(api: str, token: str, number: int) -> None:
    """Submit a job over HTTP and wait for its result."""
    job = {"task": "invoice", "kwargs": {"customer": f"customer {number}", "cents": 1250 * number}}
    submitted = call(f"{api}/jobs", token, job)
    done = call(f"{api}/jobs/{submitted['id']}/result?timeout_seconds=20", token)
    print(f"    job {submitted['id']}: {done['result']!r}", flush=True)


def main() -> None:
    # The workers start now: every job is submitted by somebody else.
    queue.start()
    made = subprocess.run(
        [*queuectl, "token", "create", "visitor", "--role", "admin"],
        check=True,
        capture_output=True,
        text=True,
    )
    token = made.stdout.split()[-1]
    with service() as api:
        print("\n6. The same over HTTP, for other machines and other languages:")
        print(f"    the service: {api}  (docs/service.md)")
        one_job(api, token, 1)
        if sys.stdout.isatty():
            dashboard = f"{api.removesuffix('/api/v1')}/dashboard/"
            print(f"\nOpen {dashboard} in a browser, and log in with this token:")
            print(f"    {token}")
            print("In another terminal, the same store:")
            print(f"    {shlex.join(queuectl)} top")
            print(f'    curl -s {api}/jobs -H "Authorization: Bearer {token}"')
            print("A sample job every other second, until Ctrl-C, which removes this store:")
            for number in itertools.count(2):
                time.sleep(SAMPLE_SECONDS)
                one_job(api, token, number)


if __name__ == "__main__":
    try:
        with queue, suppress(KeyboardInterrupt):
            main()
    finally:
        shutil.rmtree(store.parent, ignore_errors=True)
