"""Every order that somebody gives leaves an audit record, whichever way it was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.records import WorkerInfo
from leasehold.service.api import OPERATIONS
from leasehold.service.operation import ApiOperation
from service.conftest import Service, serving_file

LOOKS = {"search"}
"""They are sent by POST, and change nothing."""

WALK: list[tuple[str, dict[str, Any]]] = [
    ("create_queue", {"queue": "mail"}),
    ("update_queue", {"queue": "mail", "changes": {"max_depth": 5}}),
    ("pause_queue", {"queue": "mail"}),
    ("drain_queue", {"queue": "mail"}),
    ("resume_queue", {"queue": "mail"}),
    ("purge_queue", {"queue": "spam"}),
    ("delete_queue", {"queue": "mail"}),
    ("change_priority", {"job_id": "job", "priority": 80}),
    ("cancel", {"job_id": "job"}),
    ("replay", {"job_id": "job"}),
    ("order", {"order": {"type": "cancel"}, "where": {"ids": ["job"]}}),
    ("discard", {"job_id": "job"}),
    ("sweep", {}),
    ("requeue_stuck", {"silent_seconds": 0}),
    ("prune", {"scope": {"force": True}}),
    ("mark_deploy", {"version": "v1"}),
    ("unmark_deploy", {"version": "v1"}),
    ("keep_view", {"name": "dead", "query": "status=dead"}),
    ("forget_view", {"name": "dead"}),
    ("stop_worker", {"worker": "press"}),
    ("backup", {"name": "monday.db"}),
    ("set_schedule", {"name": "hourly", "timing": {"type": "every", "seconds": 3600},
                      "job": {"task": "work"}}),
    ("pause_schedule", {"name": "hourly"}),
    ("resume_schedule", {"name": "hourly"}),
    ("run_schedule", {"name": "hourly"}),
    ("remove_schedule", {"name": "hourly"}),
    ("set_setting", {"name": "max_retries", "value": 5}),
    ("unset_setting", {"name": "max_retries"}),
    ("create_token", {"name": "ci", "roles": ["producer"]}),
    ("revoke_token", {"name": "ci"}),
]  # fmt: skip
"""Every order once, each possible after those before it."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving_file(tmp_path) as service:
        service.api.backup_folder = tmp_path
        yield service


def test_every_order_over_the_service_is_audited(service: Service) -> None:
    orders = {
        each.name: each
        for each in OPERATIONS
        if each.method != "GET" and {"operator", "admin"} & {*each.roles}
    }
    assert {name for name, _ in WALK} == orders.keys() - LOOKS
    service.store.submit(
        [Draft(id="job", task="work"), Draft(id="junk", task="work", queue="spam")]
    )
    now = service.store.now()
    info = WorkerInfo(id="press", slots=1, queues=("a",), started_at=now, heartbeat_at=now)
    service.store.register_worker(info, is_remote=True)
    service.store.submit([Draft(id="held", task="work", queue="held")])
    service.store.exchange(request=LeaseRequest(worker="press", queues=("held",)))
    client = service.client("admin", name="ops")
    for name, given in WALK:
        before = len(service.store.audit_page().records)
        answer = ask(client, orders[name], given)
        while answer.get("more"):
            answer = ask(client, orders[name], {**given, "run": answer["run"]})
        added = service.store.audit_page().records[
            : len(service.store.audit_page().records) - before
        ]
        assert [record.actor for record in added] == ["token:ops"], name


def ask(client: httpx.Client, order: ApiOperation, given: dict[str, Any]) -> Any:
    body = {key: value for key, value in given.items() if f"{{{key}}}" not in order.path}
    path = f"/api/v1{order.path.format(**given)}"
    answer = client.request(order.method, path, json=body or None)
    assert answer.status_code < 300, (order.name, answer.text)
    return answer.json()
