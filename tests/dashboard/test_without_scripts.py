"""Every order of a person, given in a browser that runs no scripts, on real jobs."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from dashboard.shop import Shop, until
from leasehold import Every
from leasehold.core.model.job import Draft
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Status


def press(page: Page, *names: str) -> None:
    """Press the first button of each of these names, one after the other."""
    for name in names:
        page.get_by_role("button", name=name, exact=True).first.click()


def done(page: Page, words: str) -> None:
    expect(page.locator(".notice")).to_contain_text(words)


def name_of(shop: Shop, what: str) -> str:
    return f"{what}{shop.root.replace('/', '-')}"


def test_queues_and_settings(shop: Shop) -> None:
    name = name_of(shop, "plain")
    shop.queue.submit("a", queue=name)
    with shop.page("operator", java_script_enabled=False) as page:
        page.goto(shop.url(f"queue?name={name}"))
        press(page, "Pause…", "Pause the queue")
        done(page, "The queue is paused")
        press(page, "Resume")
        done(page, "The queue is active again")
        press(page, "Drain…")
        expect(page.locator("main")).to_contain_text("What it has finishes: 1 pending job and 0")
        press(page, "Drain the queue")
        done(page, "The queue accepts no more jobs")
        press(page, "Resume")
        page.get_by_role("link", name="Change the rules").click()
        page.get_by_label("max depth").fill("40")
        press(page, "Save the rules")
        done(page, "1 rule changed.")
        press(page, "Purge…", "Purge 1 job")
        expect(page.locator("h1")).to_have_text("Purge 1 job")
        until(lambda: not shop.queue.count(queue=name).jobs)
        page.goto(shop.url("settings"))
        row = page.locator("tr", has_text="backoff_max")
        row.get_by_role("textbox").fill("7m")
        row.get_by_role("button", name="Set").click()
        done(page, "The setting applies")
        page.locator("tr", has_text="backoff_max").get_by_role("button", name="Default").click()
        done(page, "The default applies again")


def test_schedules_and_workers(shop: Shop) -> None:
    name = name_of(shop, "nightly")
    shop.queue.schedule(name, "net:ping", Every(3600), queue=name)
    now = shop.queue.store.now()
    info = WorkerInfo(
        id=name, host="web-1", pid=1, queues=("x",), slots=1, started_at=now, heartbeat_at=now
    )
    shop.queue.store.register_worker(info, is_remote=True)
    with shop.page("operator", java_script_enabled=False) as page:
        for button, words in (
            ("Run now", "Its job was submitted"),
            ("Pause", "The schedule is paused"),
            ("Resume", "The schedule is active again"),
        ):
            page.goto(shop.url("schedules"))
            page.locator(f"tr[data-row={name}]").get_by_role("button", name=button).click()
            done(page, words)
        assert shop.queue.count(queue=name).jobs == 1
        page.goto(shop.url("failures"))
        page.get_by_text("Mark a deploy").click()
        page.get_by_label("Version that was deployed").fill(f"v-{name}")
        press(page, "Mark it now")
        done(page, "The deploy is marked")
        assert shop.queue.deploys()[-1].name == f"v-{name}"
        page.goto(shop.url("workers"))
        page.locator(f"section[data-row={name}]").get_by_role("button", name="Stop…").click()
        press(page, "Stop the worker")
        done(page, "The worker was asked to stop")
        expect(page.locator(f"section[data-row={name}]")).to_contain_text("stopping")


def test_one_job_and_many(shop: Shop) -> None:
    name = name_of(shop, "many")
    dead = shop.dead(name)
    store = shop.queue.store
    store.submit([Draft(id=f"{name}-{n}", task="a", queue=name) for n in range(3)])
    with shop.page("operator", java_script_enabled=False) as page:
        page.goto(shop.url(f"job?id={dead}"))
        press(page, "Replay")
        done(page, "was given another attempt")
        page.goto(shop.url(f"jobs?q=queue:{name} status:pending"))
        page.get_by_placeholder("Name").fill(name)
        press(page, "Save this search")
        done(page, "The view is saved")
        page.locator(".view a", has_text=name).click()
        press(page, "Reprioritize…")
        page.get_by_label("New priority").fill("90")
        press(page, "Reprioritize 4 jobs")
        until(lambda: len(list(shop.queue.search(queue=name, priority_min=90))) == 4)
        page.goto(shop.url(f"jobs?q=queue:{name} status:pending"))
        for row in range(2):
            page.locator(".pick input").nth(row).check()
        press(page, "Cancel…", "Cancel 2 jobs")
        until(lambda: shop.queue.count(queue=name, status="cancelled").jobs == 2)
        # Without scripts a page that shows an operation looks again by itself.
        expect(page.locator("main")).to_contain_text("2 of 2 cancelled")
        page.reload()
        press(page, "Undo…")
        expect(page.locator("main")).to_contain_text("2 jobs were cancelled.")
        press(page, "Undo the operation")
        until(lambda: not shop.queue.count(queue=name, status="cancelled").jobs)
        page.goto(shop.url("jobs"))
        page.locator(".view", has_text=name).get_by_role("button").click()
        done(page, "The view is deleted")
        shop.queue.cancel(dead)
        page.goto(shop.url(f"job?id={dead}"))
        press(page, "Discard…", "Discard the job")
        done(page, "The job was deleted")
    assert shop.queue.count(queue=name, status=Status.PENDING).jobs == 3
