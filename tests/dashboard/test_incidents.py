"""Incidents as a person on call meets them: from the verdict to the cause, and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from playwright.sync_api import Page, expect

from dashboard.shop import Shop, until
from leasehold import Status, TaskQueue
from leasehold.core.model.job import Job

FULL = 20
STAYS = "not taken back: leased or changed since, or past undoing"


@contextmanager
def slow_worker(shop: Shop, queue: str) -> Iterator[Event]:
    """A worker of one slot whose jobs wait for a service that does not answer until the event."""
    answers = Event()

    def charge() -> None:
        answers.wait()

    worker = TaskQueue(shop.queue.store, num_workers=1, queues=queue)
    worker.task(name="shop:charge")(charge)
    with worker:
        try:
            yield answers
        finally:
            answers.set()


def figure(page: Page, name: str) -> str:
    """The number on a card."""
    card = page.locator(".figure", has=page.get_by_text(name, exact=True))
    return card.locator(".value").inner_text()


def names(jobs: list[Job]) -> set[str]:
    return {job.id for job in jobs}


def test_a_queue_fills_up_because_a_service_is_slow(shop: Shop) -> None:
    name = f"charges{shop.root.replace('/', '-')}"
    shop.queue.create_queue(name, max_depth=FULL)
    with slow_worker(shop, name) as answers, shop.page("operator") as page:
        for _ in range(FULL):
            shop.queue.submit("shop:charge", queue=name)
        until(lambda: shop.queue.queue_info(name).running == 1)
        page.goto(shop.url("."))
        alert = page.locator(".alert", has_text=name)
        expect(page.locator("#verdict")).to_contain_text("little room left")
        expect(alert).to_contain_text(f"{FULL - 1} of {FULL} pending")
        expect(alert).to_contain_text("Submits are refused when it is full")
        alert.get_by_role("link", name="See the queue").click()
        info = shop.queue.queue_info(name)
        assert figure(page, "Pending") == str(info.pending) == str(FULL - 1)
        assert figure(page, "Running") == str(info.running) == "1"
        expect(page.locator("#figures")).to_contain_text("on 1 slot")
        expect(page.locator("#figures")).to_contain_text("the queue grows or stands")
        page.locator("#figures a", has_text="Running").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody a").first.click()
        expect(page.locator("#why")).to_contain_text("Running on")
        page.goto(shop.url(f"queue?name={name}"))
        expect(page.locator("#live")).to_have_text("live")
        answers.set()
        expect(page.locator("#figures")).to_contain_text("nothing waits")
        until(lambda: shop.queue.count(queue=name, status="completed").jobs == FULL)
        page.goto(shop.url("."))
        expect(page.locator(".alert", has_text=name)).to_have_count(0)


def test_a_wrong_order_to_many_jobs_is_undone(shop: Shop) -> None:
    """Somebody meant one task and cancelled the queue."""
    name = f"wrong{shop.root.replace('/', '-')}"
    with slow_worker(shop, name), shop.page("operator") as page:
        shop.queue.submit("shop:charge", queue=name)
        until(lambda: shop.queue.queue_info(name).running == 1)
        for number in range(4):
            shop.queue.submit("shop:charge", number, queue=name, priority=10 * number)
        before = {job.id: job for job in shop.queue.search(queue=name, status="pending")}
        page.goto(shop.url(f"jobs?q=queue:{name}"))
        page.get_by_role("button", name="Cancel…").click()
        expect(page.locator("main")).to_contain_text("but not the 1 running")
        page.get_by_role("button", name="Cancel 5 jobs").click()
        expect(page.locator("#operation")).to_contain_text("5 of 5 cancelled")
        page.get_by_role("button", name="Undo…").click()
        expect(page.locator("main")).to_contain_text("5 jobs were cancelled")
        page.get_by_role("button", name="Undo the operation").click()
        expect(page.locator("#operation")).to_contain_text("4 of 5 taken back")
        expect(page.locator("#operation")).to_contain_text(f"1 {STAYS}")
        after = {job.id: job for job in shop.queue.search(queue=name, status="pending")}
        assert after.keys() == before.keys()
        for job_id, job in before.items():
            now = after[job_id]
            assert (now.priority, now.attempts, now.created_at, now.reason) == (
                job.priority, job.attempts, job.created_at, job.reason,
            )  # fmt: skip


def test_an_undo_leaves_jobs_alone_that_were_leased_meanwhile(shop: Shop) -> None:
    """Dead letters were replayed too early, and a worker has begun with one of them."""
    name = f"early{shop.root.replace('/', '-')}"
    letters = {shop.dead(name) for _ in range(3)}
    with shop.page("operator") as page:
        page.goto(shop.url(f"dead-letters?queue={name}"))
        page.get_by_role("button", name="Replay all of these…").click()
        page.get_by_role("button", name="Replay 3 jobs").click()
        expect(page.locator("#operation")).to_contain_text("3 of 3 replayed")
        lease = shop.queue.lease(name)
        assert lease is not None
        page.get_by_role("button", name="Undo…").click()
        expect(page.locator("main")).to_contain_text("Those that were leased or changed since")
        page.get_by_role("button", name="Undo the operation").click()
        expect(page.locator("#operation")).to_contain_text("2 of 3 taken back")
        expect(page.locator("#operation")).to_contain_text(f"1 {STAYS}")
        dead = names(list(shop.queue.search(queue=name, status="dead")))
        assert dead == letters - {lease.job_id}
        assert shop.queue.get(lease.job_id).status is Status.RUNNING
        shop.queue.ack(lease)
