"""A busy day of a small shop, and its dashboard.

    python examples/busy_day.py [port]

The day is simulated in seconds, with a clock that is turned by hand, on a store in memory: mail
that could not be sent for an hour, a bug that came with the last deploy, a worker that went silent,
a paused newsletter, a workflow, schedules. Then time goes on as on the wall, with the dashboard at
http://127.0.0.1:8701/dashboard/ for whoever is on this machine.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime, timedelta
from random import Random

from leasehold import Cron, Every, NewJob, TaskQueue, Workflow
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore

MINUTES = 24 * 60
STEP_SECONDS = 10.0
QUEUES = {"mail": 5, "thumbnails": 4, "billing": 2, "webhooks": 3, "reports": 1}
"""How much of the work is in each."""
TASKS = {
    "mail": ("shop.mail.send_receipt", "shop.mail.send_reminder"),
    "thumbnails": ("shop.media.make_thumbnail",),
    "billing": ("shop.billing.charge", "shop.billing.send_invoice"),
    "webhooks": ("shop.hooks.deliver",),
    "reports": ("shop.reports.daily_sales",),
}
WORKERS = {
    "web-1:4120:9f2c": ("mail", "webhooks"),
    "web-2:3977:07ab": ("mail", "webhooks", "billing"),
    "media-1:812:55d0": ("thumbnails",),
    "reports-1:640:c3e1": ("reports", "billing"),
}
FRAMES = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/leasehold/worker/attempt.py", line 88, in run
    return function(*args, **kwargs)
  File "/srv/shop/{file}.py", line {line}, in {function}
    {code}
  File "/usr/lib/python3.11/{library}.py", line 1024, in {inner}
    raise error
{type}: {message}
"""


class Day:
    """The shop, its workers and what happens to them."""

    def __init__(self, seed: int = 7) -> None:
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        self.clock = ManualClock(now - timedelta(minutes=MINUTES))
        self.random = Random(seed)
        self.env = Env(clock=self.clock, random=Random(seed))
        self.store: Store = MemoryStore(env=self.env)
        self.queue = TaskQueue(self.store, num_workers=0, env=self.env, actor="ada")
        self.end = now - timedelta(minutes=4)
        self.number = 0
        self.held: list[tuple[Lease, datetime]] = []
        self.lives = [
            self.store.register_worker(
                WorkerInfo(
                    id=name, host=name.partition(":")[0], pid=int(name.split(":")[1]),
                    queues=queues, slots=8, started_at=self.clock.now(),
                    heartbeat_at=self.clock.now(), app_version="v4.2.0",
                ),
                is_remote=True,
            )
            for name, queues in WORKERS.items()
        ]  # fmt: skip
        self.silent = ""

    def play(self) -> None:
        """Simulate the day."""
        self.queue.create_queue("mail", max_concurrency=24, max_depth=2000)
        self.queue.create_queue("billing", max_retries=1)
        self.queue.create_queue("newsletter", max_depth=500)
        self.queue.pause_queue("newsletter")
        self._schedules()
        while self.clock.now() < self.end:
            self.step()
        self._leave_overs()

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Let a little time pass: jobs come, jobs are leased, jobs end."""
        left = (self.end - self.clock.now()).total_seconds() / 60
        hour = self.clock.now().hour + self.clock.now().minute / 60
        busy = (0.35 + 0.65 * max(0.0, 1 - abs(hour - 14) / 9)) * seconds / STEP_SECONDS
        coming = self.random.random() < busy, self.random.random() < busy / 2
        self.store.submit([self._draft() for each in coming if each])
        if left < 36:
            self.queue.mark_deploy("v4.2.0", "prices by country")
        if 20 < left < 55:
            self.store.submit([self._draft("newsletter") for _ in range(2)])
        self.store.fire_schedules()
        self._end_what_is_done(left)
        for worker, queues in WORKERS.items():
            if worker == self.silent:
                continue
            request = LeaseRequest(worker=worker, queues=queues, limit=4, lease_seconds=120)
            for lease in self.store.exchange(request=request).leases:
                seconds_run = self.random.expovariate(1 / 6) + (left < 50) * 4
                self.held.append((lease, self.clock.now() + timedelta(seconds=seconds_run)))
        self.store.recover()
        self.clock.advance(seconds)

    def _end_what_is_done(self, left: float) -> None:
        now = self.clock.now()
        done = [each for each in self.held if each[1] <= now]
        self.held = [each for each in self.held if each[1] > now]
        for lease, _ in done:
            error = self._error(lease, left)
            bug = error is not None and error.type == "KeyError"
            outcome = Complete(b'{"ok":true}') if error is None else Fail(error, not bug)
            self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
        for worker in WORKERS:
            if worker != self.silent:
                mine = [lease for lease, _ in self.held if lease.worker == worker]
                self.store.renew(worker, [Renewal(each.job_id, each.version, 120) for each in mine])

    def _error(self, lease: Lease, left: float) -> JobError | None:
        """What goes wrong, if anything does: some always, some for a while, some since a deploy."""
        chance = self.random.random()
        if lease.queue == "mail" and 250 < left < 310 and chance < 0.6:
            host = f"mx{self.random.randrange(1, 9)}.example.net"
            said = f"[Errno 111] {host} refused after 30.2 s"
            where = "mail", 41, "send_receipt", "smtp.connect(host, 25)", "smtplib"
            return _error("ConnectionRefusedError", said, *where)
        if lease.task == "shop.billing.charge" and left < 35 and chance < 0.5:
            where = "billing", 77, "charge", 'rate = RATES[customer["vat_id"]]', "collections"
            return _error("KeyError", "'vat_id'", *where)
        if lease.queue == "webhooks" and chance < 0.07:
            status = self.random.choice((500, 502, 503))
            said = f"https://hooks.partner.example answered {status}"
            where = "hooks", 120, "deliver", "response.raise_for_status()", "http"
            return _error("DeliveryError", said, *where)
        if lease.queue == "thumbnails" and chance < 0.012:
            said = f"cannot read upload_{self.number:06}.heic"
            where = "media", 33, "make_thumbnail", "image = Image.open(path)", "PIL"
            return _error("UnidentifiedImageError", said, *where)
        return None

    def _draft(self, queue: str | None = None, **more: object) -> Draft:
        self.number += 1
        name = queue or self.random.choices(list(QUEUES), list(QUEUES.values()))[0]
        task = self.random.choice(TASKS.get(name, (f"shop.{name}.work",)))
        payload = {
            "args": [f"order-{10_000 + self.number}"],
            "kwargs": {"customer": f"c{self.random.randrange(400)}", "api_key": "sk_live_51H"},
        }
        return Draft(
            id=self.env.new_id(), task=task, queue=name, payload=json.dumps(payload).encode(),
            priority=self.random.choice((25, 50, 50, 50, 75)), max_retries=2,
            metadata={"tenant": self.random.choice(("acme", "globex", "initech"))}, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    def _schedules(self) -> None:
        queue = self.queue
        queue.schedule("nightly-sales", "shop.reports.daily_sales", Cron("0 3 * * *"),
                       queue="reports")  # fmt: skip
        queue.schedule("sync-stock", "shop.stock.sync", Every(900), queue="webhooks")
        queue.schedule("month-end", "shop.billing.close_month", Cron("0 6 1 * *", "Europe/Berlin"),
                       queue="billing")  # fmt: skip
        queue.schedules.pause("month-end")

    def _leave_overs(self) -> None:
        """What a day leaves behind."""
        store, now = self.store, self.clock.now()
        store.submit([self._draft("mail", run_at=now + timedelta(minutes=5 * n)) for n in range(9)])
        store.submit([self._draft("exports") for _ in range(3)])
        flow = Workflow()
        flow.add("fetch", NewJob("shop.catalog.fetch", queue="exports"))
        for language in ("de", "fr", "it"):
            translate = NewJob("shop.catalog.translate", (language,), queue="exports")
            flow.add(language, translate, after="fetch")
        flow.add(
            "publish", NewJob("shop.catalog.publish", queue="webhooks"), after=("de", "fr", "it")
        )
        self._run_as_far_as_it_goes(self.queue.submit_workflow(flow).id)
        self.silent = "media-1:812:55d0"
        for _ in range(23):
            self.step()
        long = LeaseRequest(worker="reports-1:640:c3e1", queues=("reports",), lease_seconds=300)
        store.submit([self._draft("reports")])
        for lease in store.exchange(request=long).leases:
            self.held.append((lease, self.clock.now() + timedelta(days=1)))
            done = json.dumps({"percent": 62, "message": "1,240 of 2,000 rows"}).encode()
            store.report_progress(lease.job_id, lease.version, done)
            lines = [
                LogLine(self.clock.now(), f"read {n * 310} of 2,000 rows") for n in range(1, 5)
            ]
            store.append_log(lease.job_id, lease.version, lines)
        self.catch_up()

    def _run_as_far_as_it_goes(self, workflow: str) -> None:
        """Let one of its translations fail for good: what depends on it is cancelled."""
        worker, queues = "web-2:3977:07ab", ("exports",)
        request = LeaseRequest(worker=worker, queues=queues, parent_id=workflow, limit=3)
        said = "the translator did not answer within 60 s"
        where = "catalog", 58, "translate", "text = client.translate(page)", "socket"
        for _ in range(2):
            for lease in self.store.exchange(request=request).leases:
                failed = Fail(_error("TimeoutError", said, *where), retryable=False)
                outcome = failed if lease.job_id.endswith(":fr") else Complete(b'{"ok":true}')
                self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])

    def catch_up(self) -> None:
        """Let time pass until it is that of the wall."""
        behind = (datetime.now(UTC) - self.clock.now()).total_seconds()
        while behind > 0:
            seconds = min(behind, STEP_SECONDS)
            self.step(seconds)
            behind -= seconds


def _error(
    kind: str, message: str, file: str, line: int, function: str, code: str, library: str
) -> JobError:
    told = FRAMES.format(
        file=file, line=line, function=function, code=code, library=library, inner="request",
        type=kind, message=message,
    )  # fmt: skip
    return JobError(kind, message, told)


def go_on(day: Day, stop: threading.Event) -> None:
    """Let time pass as on the wall, a second at a time."""
    while not stop.wait(1.0):
        day.catch_up()


def main() -> None:
    from leasehold.dashboard import dashboard_routes
    from leasehold.service.server import bind, serve

    day = Day()
    day.play()
    listener = bind("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8701)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/dashboard/"
    stop = threading.Event()
    threading.Thread(target=go_on, args=(day, stop), daemon=True).start()
    serve(
        day.store, listener, env=day.env, insecure=True, beside=dashboard_routes,
        on_started=lambda _: print(f"the day is over; look at it: {address}", flush=True),
    )  # fmt: skip
    stop.set()


if __name__ == "__main__":
    main()
