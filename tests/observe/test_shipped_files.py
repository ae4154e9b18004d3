"""The files for Prometheus and Grafana: every name is told, and alerts go off where doctor's do."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import SLOW_SECONDS, Scope
from leasehold.observe import alerts, health
from leasehold.observe.files import ALERT_RULES, DASHBOARD, shipped
from leasehold.observe.findings import Level
from service.conftest import serving
from support import promtool
from support.exposed import exposed

NAME = re.compile(r"\bleasehold_[a-z_0-9]+")
OF_THE_SERVER = "store_pool"
"""The one rule that doctor cannot judge: it is about a process, not about the store."""


def groups() -> list[dict[str, Any]]:
    return list(yaml.safe_load(shipped(ALERT_RULES))["groups"])


def alert_rules() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in groups() for rule in group["rules"] if "alert" in rule}


def dashboard_queries() -> Iterator[str]:
    for panel in json.loads(shipped(DASHBOARD))["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every name that a live server of a store with some history tells."""
    store = connect(tmp_path_factory.mktemp("told") / "jobs.db", durability="normal")
    store.create_queue("mail", QueueConfig(max_depth=5), actor="me")
    store.submit([Draft(id=f"job-{n}", task="t", queue="mail") for n in range(2)])
    request = LeaseRequest(worker="w", limit=2, queues=("mail",))
    one, two = store.exchange(request=request).leases
    failed = Fail(JobError("E", "no"))
    store.exchange(
        [
            Settlement(one.job_id, one.version, Complete()),
            Settlement(two.job_id, two.version, failed),
        ]
    )
    store.prune(scope=Scope(force=True), actor="me")
    with serving(store, insecure=True) as service:
        client = service.anonymous()
        client.get("/nowhere")
        names = exposed(client.get("/metrics").content).names
    store.close()
    return names


def test_the_rules_use_what_is_told(told: set[str]) -> None:
    used = {
        name for group in groups() for rule in group["rules"] for name in NAME.findall(rule["expr"])
    }
    assert used
    assert used - told == set()


def test_the_dashboard_uses_what_is_told(told: set[str]) -> None:
    queries = list(dashboard_queries())
    variables = re.findall(r"label_values\((leasehold_\w+)", shipped(DASHBOARD))
    used = {name for query in queries for name in NAME.findall(query)} | {*variables}
    assert len(queries) > 20
    assert used - told == set()


def test_the_rules_are_those_of_doctor() -> None:
    checks = {rule["labels"]["check"] for rule in alert_rules().values()} - {OF_THE_SERVER}
    of_queues = {rule.__name__ for rule in alerts.RULES}
    of_the_store = {check.__name__ for check in health.CHECKS}
    assert of_queues <= checks <= of_queues | of_the_store
    severities = {rule["labels"]["severity"] for rule in alert_rules().values()}
    assert severities == {Level.WARNING.value, Level.CRITICAL.value}


def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / ALERT_RULES
    path.write_text(shipped(ALERT_RULES))
    promtool.check("rules", "--lint=all", "--lint-fatal", str(path))


def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    queries = [query.replace("$__rate_interval", "5m") for query in dashboard_queries()]
    rules = [{"record": f"query:n{number}", "expr": q} for number, q in enumerate(queries)]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool.check("rules", str(path))


def test_the_dashboard_is_whole() -> None:
    document = json.loads(shipped(DASHBOARD))
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {each["name"] for each in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", shipped(DASHBOARD)))
    assert used - variables == {"__rate_interval", "__all"}
    places = [panel["gridPos"] for panel in document["panels"]]
    assert all(each["x"] >= 0 and each["x"] + each["w"] <= 24 for each in places)


# -- where they go off ---------------------------------------------------------------------------

Series = dict[str, str]
QUEUE = 'job="jobs",instance="a",queue="mail"'


def constant(value: float) -> str:
    return f"{value}x40"


def growing(per_minute: float) -> str:
    return f"0+{per_minute}x40"


def waits(middle: float, long: float) -> Series:
    """A hundred waits a minute, two of which were longer than most."""
    name = "leasehold_job_wait_seconds"
    labels = f'{QUEUE},priority_band="medium"'
    return {
        f'{name}_bucket{{{labels},le="{middle / 2}"}}': growing(0),
        f'{name}_bucket{{{labels},le="{middle}"}}': growing(98),
        f'{name}_bucket{{{labels},le="{long}"}}': growing(100),
        f'{name}_bucket{{{labels},le="+Inf"}}': growing(100),
        f"{name}_count{{{labels}}}": growing(100),
    }


def attempts(completed: float, failed: float) -> Series:
    return {
        f'leasehold_jobs_completed_total{{{QUEUE},status="completed"}}': growing(completed),
        f"leasehold_job_run_seconds_count{{{QUEUE}}}": growing(completed + failed),
    }


def standing(pending_seconds: float, workers: int, paused: int) -> Series:
    return {
        f"leasehold_queue_oldest_pending_age_seconds{{{QUEUE}}}": constant(pending_seconds),
        f"leasehold_active_workers{{{QUEUE}}}": constant(workers),
        f"leasehold_queue_paused{{{QUEUE}}}": constant(paused),
    }


def held(pending: int, paused: int) -> Series:
    return {
        f'leasehold_queue_depth{{{QUEUE},status="pending"}}': constant(pending),
        f"leasehold_queue_paused{{{QUEUE}}}": constant(paused),
    }


def gauge(name: str, value: float, labels: str = 'job="jobs",instance="a"') -> Series:
    return {f"leasehold_{name}{{{labels}}}": constant(value)}


def dead(per_minute: float) -> Series:
    return {f'leasehold_jobs_completed_total{{{QUEUE},status="dead"}}': growing(per_minute)}


def depth(share: float) -> Series:
    pending = gauge("queue_depth", share * 100, f'{QUEUE},status="pending"')
    return pending | gauge("queue_depth_limit", 100, QUEUE)


def filling(start: float, per_minute: float, leased: float, workers: int, paused: int) -> Series:
    """A queue that gets deeper by so many jobs a minute, of which so many are leased."""
    waited = f'leasehold_job_wait_seconds_count{{{QUEUE},priority_band="medium"}}'
    return {
        f'leasehold_queue_depth{{{QUEUE},status="pending"}}': f"{start}+{per_minute}x40",
        **({waited: growing(leased)} if leased else {}),
        **gauge("active_workers", workers, QUEUE),
        **gauge("queue_paused", paused, QUEUE),
    }


def pool(in_use: int) -> Series:
    return gauge("store_pool_in_use", in_use) | gauge("store_pool_size", 32)


def evicted(per_minute: float) -> Series:
    labels = 'job="jobs",instance="a"'
    return {f"leasehold_redis_evicted_keys_total{{{labels}}}": growing(per_minute)}


AGE = alerts.NO_WORKER_SECONDS_MAX
RATE = alerts.FAILURE_RATE_MAX
CASES: list[tuple[str, Series, Series]] = [
    (
        "LeaseholdDeadLetterRate",
        dead(alerts.DEAD_PER_MINUTE_MAX + 1),
        dead(alerts.DEAD_PER_MINUTE_MAX - 1),
    ),
    ("LeaseholdNoWorker", standing(AGE + 1, 0, 0), standing(AGE - 1, 0, 0)),
    ("LeaseholdNoWorker", standing(AGE + 1, 0, 0), standing(AGE + 1, 1, 0)),
    ("LeaseholdNoWorker", standing(AGE + 1, 0, 0), standing(AGE + 1, 0, 1)),
    ("LeaseholdPaused", held(1, 1), held(1, 0)),
    ("LeaseholdPaused", held(1, 1), held(0, 1)),
    ("LeaseholdStorePoolExhausted", pool(32), pool(31)),
    ("LeaseholdRedisEvicting", evicted(5), evicted(0)),
    ("LeaseholdRedisAway", gauge("redis_fallback_mode", 1), gauge("redis_fallback_mode", 0)),
    ("LeaseholdFailureRate", attempts(1000, 1100 * RATE), attempts(1000, 1000 * RATE)),
    (
        "LeaseholdFailureRate",
        attempts(0, alerts.ATTEMPTS_MIN / 4),
        attempts(0, alerts.ATTEMPTS_MIN / 6),
    ),
    ("LeaseholdDepth", depth(alerts.DEPTH_SHARE_MAX + 0.01), depth(alerts.DEPTH_SHARE_MAX - 0.01)),
    ("LeaseholdGrowing", filling(0, 20, 100, 1, 0), filling(0, 9, 100, 1, 0)),
    ("LeaseholdGrowing", filling(0, 20, 0, 1, 0), filling(0, 5, 0, 1, 0)),
    ("LeaseholdGrowing", filling(200, 20, 100, 1, 0), filling(200, 0, 100, 1, 0)),
    ("LeaseholdGrowing", filling(200, 20, 100, 1, 0), filling(200, 20, 100, 0, 0)),
    ("LeaseholdGrowing", filling(200, 20, 100, 1, 0), filling(200, 20, 100, 1, 1)),
    ("LeaseholdLongWaits", waits(1, 100), waits(10, 90)),
    ("LeaseholdLongWaits", waits(1, 100), waits(0.001, 0.9)),
    (
        "LeaseholdCleanUpSlow",
        gauge("cleanup_seconds", SLOW_SECONDS + 1),
        gauge("cleanup_seconds", SLOW_SECONDS - 1),
    ),
    (
        "LeaseholdDiskNearlyFull",
        gauge("store_free_bytes", health.FREE_BYTES_WARNING - 1),
        gauge("store_free_bytes", health.FREE_BYTES_WARNING),
    ),
    (
        "LeaseholdDiskFull",
        gauge("store_free_bytes", health.FREE_BYTES_CRITICAL - 1),
        gauge("store_free_bytes", health.FREE_BYTES_CRITICAL),
    ),
    (
        "LeaseholdClockAhead",
        gauge("store_clock_ahead_seconds", health.SKEW_SECONDS_WARNING + 1),
        gauge("store_clock_ahead_seconds", health.SKEW_SECONDS_WARNING),
    ),
    (
        "LeaseholdClockFarAhead",
        gauge("store_clock_ahead_seconds", health.SKEW_SECONDS_CRITICAL + 1),
        gauge("store_clock_ahead_seconds", health.SKEW_SECONDS_CRITICAL),
    ),
]


EVALUATED = {"LeaseholdPaused": "35m"}


def test_every_alert_is_tried() -> None:
    assert {alert for alert, _, _ in CASES} == alert_rules().keys()


def test_alerts_go_off_where_doctor_says_so(tmp_path: Path) -> None:
    (tmp_path / ALERT_RULES).write_text(shipped(ALERT_RULES))
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in given.items()
            ],
            "promql_expr_test": [
                {
                    # Whatever its labels, is it there?
                    "expr": f'count(ALERTS{{alertname="{alert}"}} == 1) or vector(0)',
                    "eval_time": EVALUATED.get(alert, "15m"),
                    "exp_samples": [{"labels": "{}", "value": expected}],
                }
            ],
        }
        for alert, bad, good in CASES
        for given, expected in ((bad, 1), (good, 0))
    ]
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [ALERT_RULES], "tests": tests}))
    done = subprocess.run(
        [promtool.promtool(), "test", "rules", path.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
