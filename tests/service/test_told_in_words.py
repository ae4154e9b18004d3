"""What people are told when a store was moved, a server is away, or a token does not go so far."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.connect import connect
from leasehold.core.contract.wire import HintsSince, encode
from leasehold.core.model.job import Draft
from leasehold.core.rules import moving
from leasehold.env import SYSTEM
from leasehold.errors import StoreMovedError, UnsupportedError
from leasehold.service.store_breaker import FAILURES_MAX
from leasehold.stores.remote.address import parse
from leasehold.stores.remote.carrying import FailedError
from leasehold.stores.remote.listening import Listening
from leasehold.stores.remote.transport import Transport
from service.conftest import Service, serving


def test_a_service_over_a_moved_store_says_where_it_went(tmp_path: Path) -> None:
    old, new = (connect(str(tmp_path / name), durability="normal") for name in ("a.db", "b.db"))
    with serving(old) as service:
        secret = service.token("admin")
        moving.move(old, new, env=SYSTEM, actor="me", running="copy")
        client = service.client(secret=secret)
        # As often as would open the breaker: the store is not away.
        for _ in range(FAILURES_MAX + 1):
            refused = client.post("/api/v1/jobs", json={"task": "work"})
            assert (refused.status_code, refused.json()["code"]) == (409, "store_moved")
        assert "b.db" in refused.json()["detail"]
        assert "retry-after" not in refused.headers
        assert client.get("/api/v1/queues").status_code == 200
        far = connect(service.url.replace("://", f"://{secret}@"))
        with pytest.raises(StoreMovedError, match=r"b\.db"):
            far.submit([Draft(id="late", task="work")])
        far.close()
    old.close()
    new.close()


class FlakyLine:
    """Fails so often, answers once, then waits to be hung up."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.has_answered = False
        self.is_waiting = threading.Event()
        self._hung_up = threading.Event()

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        if self.failures:
            self.failures -= 1
            raise FailedError("connection refused", was_sent=False)
        if self.has_answered:
            self.is_waiting.set()
            self._hung_up.wait()
            raise FailedError("hung up", was_sent=True)
        self.has_answered = True
        return encode(HintsSince("here"))

    def hang_up(self) -> None:
        self._hung_up.set()

    def close(self) -> None:
        """There is nothing to let go of."""


class _Listener:
    def on_ready(self) -> None: ...

    def on_ended(self, job_ids: object) -> None: ...

    def on_cancel_requested(self, job_ids: object) -> None: ...


def test_a_server_is_said_to_be_lost_once_and_back_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transport = Transport(parse("http://127.0.0.1:9"), SYSTEM)
    line = FlakyLine(failures=4)
    monkeypatch.setattr(transport.carrier, "line", lambda: line)
    monkeypatch.setattr("leasehold.stores.remote.listening.PAUSE_SECONDS_MAX", 0.0)
    monkeypatch.setattr("leasehold.stores.remote.listening.PAUSE_SECONDS_FIRST", 0.0)
    listening = Listening(transport, SYSTEM, ends=True)
    with caplog.at_level(logging.INFO, "leasehold.remote"):
        listening.subscribe(_Listener())
        assert line.is_waiting.wait(60)
        listening.close()
    assert [record.getMessage() for record in caplog.records] == [
        "http://127.0.0.1:9 does not answer (connection refused): it is asked again until it does",
        "http://127.0.0.1:9 answers again",
    ]


def tidy() -> str:
    return "tidied"


def test_a_consumer_runs_a_module_whose_schedules_it_may_not_change(
    memory_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    secret = memory_service.token("consumer")
    far = TaskQueue(memory_service.url.replace("://", f"://{secret}@"), num_workers=0)

    assert far.cron("0 3 * * *", name="nightly")(tidy)() == "tidied"
    [said] = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert said.startswith("schedule 'nightly' was not declared from here, and stays as the store")
    assert "operator" in said
    assert memory_service.store.schedules() == []
    far.shutdown()


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
@pytest.mark.parametrize("name", ["ca", "cert", "key"])
def test_a_file_of_the_url_that_is_not_there_is_named(
    tmp_path: Path, scheme: str, name: str
) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(UnsupportedError, match=rf"{name}=.*missing\.pem cannot be read: No such"):
        parse(f"{scheme}://jobs.example.com?{name}={missing}")
