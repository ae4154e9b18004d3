"""What comes next, why a job waits, stuck jobs, and copies of the store, over the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig
from leasehold.errors import UnsupportedError
from leasehold.service import stuck
from leasehold.service.out_of_sight import OUT_OF_SIGHT
from service.conftest import Service, serving_file


def test_what_comes_next_is_told_and_not_leased(memory_service: Service) -> None:
    memory_service.store.submit(
        [Draft(id=f"{n}", task="work", queue="peeked", priority=n) for n in (10, 90, 50)]
    )
    client = memory_service.client("observer", queues=("peeked",))
    for _ in range(2):
        told = client.get("/api/v1/queues/peeked/next", params={"limit": 2})
        assert told.status_code == 200, told.text
        assert [job["id"] for job in told.json()["jobs"]] == ["90", "50"]
    assert client.get("/api/v1/queues/peeked/next").json()["jobs"][0]["id"] == "90"
    assert client.get("/api/v1/queues/other/next").status_code == 403
    everybody = memory_service.client("observer")
    unknown = everybody.get("/api/v1/queues/unknown/next")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "queue_not_found")
    memory_service.store.create_queue("empty", QueueConfig(), actor="me")
    assert everybody.get("/api/v1/queues/empty/next").json() == {"jobs": []}
    # The same from afar, by the verbs of the store.
    secret = memory_service.token("consumer")
    far = TaskQueue(memory_service.url.replace("://", f"://{secret}@"), num_workers=0)
    assert [job.id for job in far.peek("peeked", limit=3)] == ["90", "50", "10"]
    far.shutdown()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving_file(tmp_path) as service:
        yield service


def test_who_submits_a_job_may_ask_why_it_waits(service: Service) -> None:
    theirs = Draft(id="theirs", task="shop:send", queue="theirs")
    mine = Draft(id="mine:waits", task="shop:send", queue="mine", depends_on=("theirs",))
    plain = Draft(id="mine:next", task="shop:send", queue="mine")
    service.store.submit([theirs, mine, plain])
    for client in (
        service.client("producer"),
        service.client("producer", queues=("mine",)),
    ):
        told = client.get("/api/v1/jobs/mine:next/why").json()
        assert told["kind"] == "no_worker"
        assert told["details"]["command"].endswith("--queues mine --import shop")
    blocked = client.get("/api/v1/jobs/mine:waits/why").json()
    assert (blocked["kind"], blocked["details"]) == ("blocked", {"depends_on": [OUT_OF_SIGHT]})
    assert "theirs" not in blocked["text"]
    for unknown in ("theirs", "nothing"):
        assert client.get(f"/api/v1/jobs/{unknown}/why").status_code == 404


def test_an_admin_writes_a_backup_where_the_store_is(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    service.store.submit([Draft(id="kept", task="work")])
    admin = service.client("admin")
    refused = admin.post("/api/v1/backups", json={"name": "monday.db"})
    assert (refused.status_code, "--backup-dir" in refused.json()["detail"]) == (422, True)

    service.api.backup_folder = folder
    made = admin.post("/api/v1/backups", json={"name": "monday.db"})
    assert (made.status_code, made.json()["name"]) == (201, "monday.db")
    assert made.json()["size_bytes"] == (folder / "monday.db").stat().st_size
    copy = connect(str(folder / "monday.db"))
    assert copy.get("kept") is not None
    copy.close()

    again = admin.post("/api/v1/backups", json={"name": "monday.db"})
    assert (again.status_code, again.json()["code"]) == (409, "backup_exists")
    for name in ("../monday.db", "/tmp/x", ".hidden", "", "a/b", "x" * 101):
        refused = admin.post("/api/v1/backups", json={"name": name})
        assert (refused.status_code, "[A-Z" in refused.json()["detail"]) == (422, False)
        assert refused.json()["detail"].startswith("name must be a file's name such as monday.db")
    assert service.client("operator").post("/api/v1/backups", json={"name": "a"}).status_code == 403
    assert [path.name for path in folder.iterdir() if path.suffix == ".db"] == ["monday.db"]


def test_a_store_without_a_file_has_no_backup(memory_service: Service, tmp_path: Path) -> None:
    memory_service.api.backup_folder = tmp_path
    refused = memory_service.client("admin").post("/api/v1/backups", json={"name": "a.db"})
    assert refused.status_code == 422
    far = TaskQueue(
        memory_service.url.replace("://", f"://{memory_service.token('admin')}@"), num_workers=0
    )
    with pytest.raises(UnsupportedError, match=r"POST /api/v1/backups .* --backup-dir"):
        far.backup(tmp_path / "a.db")
    far.shutdown()
    memory_service.api.backup_folder = None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x.db\n", "x.db-wal", "x.db-run", ".x", "../x", ""])
def test_a_backup_has_a_name_of_its_own(service: Service, tmp_path: Path, name: str) -> None:
    service.api.backup_folder = tmp_path / "backups"
    refused = service.client("admin").post("/api/v1/backups", json={"name": name})
    assert (refused.status_code, "monday.db" in refused.json()["detail"]) == (422, True)


def test_a_queue_with_jobs_is_deleted_by_force(memory_service: Service) -> None:
    memory_service.store.submit([Draft(id="job", task="work", queue="old")])
    admin = memory_service.client("admin")
    assert admin.delete("/api/v1/queues/old").status_code == 409
    deleted = admin.delete("/api/v1/queues/old", params={"force": "true"})
    assert deleted.status_code == 200, deleted.text


def test_stuck_jobs_are_taken_from_their_holders(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "REQUEUED_AT_ONCE", 2)
    client = service.client("operator", "producer", "consumer", name="ops")
    for number in range(3):
        client.post("/api/v1/jobs", json={"task": "a", "id": f"job-{number}", "max_retries": 0})
    held = client.post("/api/v1/leases", json={"worker": "w", "limit": 3}).json()["leases"]
    assert client.get("/api/v1/stuck").json()["jobs"] == []
    # One that beats, but runs for too long, is stuck as well.
    found = client.get("/api/v1/stuck", params={"running_seconds": 0}).json()["jobs"]
    assert {each["job_id"] for each in found} == {"job-0", "job-1", "job-2"}
    ask = {"running_seconds": "0s", "reset_attempts": True}
    told = client.post("/api/v1/stuck/requeue", json=ask).json()
    assert (len(told["requeued"]), told["not_requeued"], told["more"]) == (2, [], True)
    last = client.post("/api/v1/stuck/requeue", json={"running_seconds": 0}).json()
    # Without attempts left it is dead, and the answer says so.
    assert (last["requeued"], last["more"]) == ([], False)
    [dead] = last["not_requeued"]
    assert (dead["status"], dead["job"]["worker"]) == ("dead", "w")
    [first] = [each for each in held if each["job_id"] == told["requeued"][0]["job"]["job_id"]]
    proof = {"version": first["version"], "secret": first["secret"]}
    late = client.post(f"/api/v1/jobs/{first['job_id']}/complete", json=proof)
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
