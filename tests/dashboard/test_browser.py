"""The pages in a real browser, at the root and behind a proxy that cuts `/a/b` off."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import expect

from dashboard.shop import Shop, until, works
from dashboard.test_pages import HOSTILE, HOSTILE_NAME
from leasehold import TaskQueue

AXE = (Path(__file__).parent / "vendor/axe.min.js").read_text(encoding="utf-8")
PAGES = (
    "", "queues", "jobs", "failures", "dead-letters", "schedules", "workers", "health", "settings",
    "audit", "queue?name=mail", "confirm?order=pause-queue&queue=mail", "jobs?q=stauts:dead",
    "operations", "confirm?order=discard-letters", "workflows", "queue-rules?name=mail",
    "workflow?id=flow-1", "jobs?show=worker,metadata,parent",
)  # fmt: skip
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
"""Only colours differ between them."""
RUN_AXE = "axe.run({resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa']})"
RUN_AXE_ON_COLOURS = "axe.run({resultTypes: ['violations'], runOnly: ['color-contrast']})"


def test_every_page_is_silent_accessible_and_fits_a_phone(shop: Shop) -> None:
    job = shop.dead("seen")
    [failure, *_] = shop.queue.failures("seen")
    pages = (*PAGES, f"job?id={job}", f"failure?fingerprint={failure.fingerprint}")
    # None of this depends on where the pages are: half of them here, half there.
    mine = pages[::2] if shop.root else pages[1::2]
    grave: list[tuple[str, ...]] = []
    with shop.page() as page:
        for path in mine:
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(shop.url(path))
            expect(page.locator("h1")).to_have_count(1)
            page.evaluate(AXE)
            for scheme, rules in zip(SCHEMES, (RUN_AXE, RUN_AXE_ON_COLOURS), strict=True):
                page.emulate_media(color_scheme=scheme)
                grave += [
                    (path, scheme, each["id"], each["nodes"][0]["html"])
                    for each in page.evaluate(rules)["violations"]
                    if each["impact"] != "minor"
                ]
            page.set_viewport_size({"width": 320, "height": 740})
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
    assert grave == []


def test_a_dead_job_is_replayed_and_seen_to_complete_live(shop: Shop) -> None:
    name = f"replayed{shop.root.replace('/', '-')}"
    job = shop.dead(name)
    with shop.page("operator") as page:
        page.goto(shop.url(f"job?id={job}"))
        page.get_by_role("button", name="Replay").click()
        expect(page.locator(".notice")).to_contain_text("was given another attempt")
        expect(page.locator("#head")).to_contain_text("pending")
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("window.stays = true")
        worker = TaskQueue(shop.queue.store, num_workers=1, queues=name)
        worker.task(name="shop:works")(works)
        with worker:
            expect(page.locator("#head")).to_contain_text("completed")
        expect(page.locator("#why")).to_contain_text("It has ended: completed")
        assert page.evaluate("window.stays"), "it was loaded anew, not changed in place"


def test_an_order_is_asked_about_and_can_be_left(shop: Shop) -> None:
    name = f"ordered{shop.root.replace('/', '-')}"
    shop.queue.submit("a", queue=name)
    with shop.page("operator") as page:
        page.goto(shop.url(f"queue?name={name}"))
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("main")).to_contain_text("1 pending job waits")
        page.get_by_role("link", name="Go back").click()
        assert shop.queue.queue_info(name).state.value == "active"
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Pause the queue").click()
        expect(page.locator(".notice")).to_contain_text("The queue is paused")
        assert shop.queue.queue_info(name).state.value == "paused"
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".title .chip")).to_have_text("active")


def test_rows_hold_still_and_new_ones_wait(shop: Shop) -> None:
    name = f"still{shop.root.replace('/', '-')}"
    first = shop.queue.submit("a", queue=name)
    with shop.page("operator") as page:
        page.goto(shop.url(f"jobs?q=queue:{name}"))
        expect(page.locator("#live")).to_have_text("live")
        shop.queue.submit("a", queue=name)
        shop.queue.cancel(first)
        expect(page.locator(".new-rows")).to_have_text("1 new \u2013 show")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr .status")).to_contain_text("cancelled")
        page.locator(".new-rows").click()
        expect(page.locator("tbody tr")).to_have_count(2)


def test_the_tabs_of_a_browser_share_one_stream(shop: Shop) -> None:
    followers = shop.service.api.followers
    until(lambda: not followers)
    with shop.page("operator") as page:
        page.goto(shop.url("queues"))
        expect(page.locator("#live")).to_have_text("live")
        other = page.context.new_page()
        other.goto(shop.url("jobs"))
        shop.queue.submit("a", queue="shared")
        expect(other.locator("#live")).to_have_text("live")
        assert len(followers) == 1
        page.close()
        shop.queue.submit("a", queue="shared")
        until(lambda: len(followers) == 1)


def test_keys(shop: Shop) -> None:
    for number in range(2):
        shop.queue.submit("a", queue="keyed", job_id=f"keyed-{number}{shop.root}")
    with shop.page("operator") as page:
        page.goto(shop.url(f"jobs?q=queue:keyed id:keyed-0{shop.root},keyed-1{shop.root}"))
        page.keyboard.press("/")
        expect(page.locator("input[type=search]")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("input[type=search]")).not_to_be_focused()
        expect(page.locator("input[type=search]")).not_to_have_value("")
        for key in ("j", "j", "k", "j"):
            page.keyboard.press(key)
        expect(page.locator("tr[aria-selected]")).to_have_attribute(
            "data-row", f"keyed-0{shop.root}"
        )
        page.keyboard.press("x")
        expect(page.locator("[data-chosen]")).to_have_text("Apply to the 1 selected:")
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("o")
        page.wait_for_url(lambda url: "/job?id=keyed-0" in url)


def test_without_scripts_everything_can_be_read_and_done(shop: Shop) -> None:
    job = shop.queue.submit("a", queue="scriptless")
    with shop.page("operator", java_script_enabled=False) as page:
        expect(page.locator("#verdict")).to_be_visible()
        expect(page.locator("svg.lines")).to_have_count(6)
        page.goto(shop.url("jobs"))
        page.fill("input[type=search]", f"id:{job.id}")
        page.get_by_role("button", name="Search").click()
        page.locator("tbody a").first.click()
        page.get_by_role("button", name="Cancel…").click()
        page.fill("#reason", "sold out")
        page.get_by_role("button", name="Cancel the job").click()
        expect(page.locator("#why")).to_contain_text("sold out")
        page.get_by_role("button", name="Log out").click()
        page.goto(shop.url("queues"))
        expect(page.locator("h1")).to_have_text("Log in")


def test_rows_that_were_ticked_are_asked_about_and_no_others(shop: Shop) -> None:
    queue = f"ticked{shop.root.replace('/', '-')}"
    for _ in range(3):
        shop.queue.submit("a", queue=queue)
    with shop.page("operator") as page:
        page.goto(shop.url(f"jobs?q=queue:{queue}"))
        for row in range(2):
            page.locator(".pick input").nth(row).check()
        expect(page.locator("[data-chosen]")).to_have_text("Apply to the 2 selected:")
        page.get_by_role("button", name="Cancel…").click()
        expect(page.locator("h1")).to_have_text("Cancel the 2 selected jobs?")
        page.get_by_role("button", name="Cancel 2 jobs").click()
        expect(page.locator("main")).to_contain_text("done")
    assert shop.queue.count(queue=queue, status="cancelled").jobs == 2


def test_a_search_is_completed_word_by_word(shop: Shop) -> None:
    with shop.page("operator") as page:
        page.goto(shop.url("jobs"))
        page.locator("input[type=search]").press_sequentially("queue:mail sta")
        options = page.locator("#completions option")
        expect(options).to_have_count(9)
        expect(options.first).to_have_attribute("value", "queue:mail status:")


def test_the_colours_are_the_browsers_or_those_that_were_chosen(shop: Shop) -> None:
    colour = "getComputedStyle(document.body).colorScheme"
    with shop.page("operator", java_script_enabled=False, color_scheme="light") as page:
        page.goto(shop.url("jobs?q=status:dead"))
        page.get_by_role("button", name="dark").click()
        assert page.url.endswith("/jobs?q=status:dead")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate(colour) == "dark"
        page.get_by_role("button", name="system").click()
        assert page.evaluate(colour) == "light dark"


def test_a_rule_is_changed_in_its_form(shop: Shop) -> None:
    name = f"ruled{shop.root.replace('/', '-')}"
    shop.queue.create_queue(name)
    with shop.page("operator") as page:
        page.goto(shop.url(f"queue?name={name}"))
        page.get_by_role("link", name="Change the rules").click()
        page.get_by_label("max depth").fill("many")
        page.get_by_role("button", name="Save the rules").click()
        expect(page.locator("#problem")).to_contain_text("max_depth must be a whole number")
        page.get_by_label("max depth").fill("40")
        page.get_by_role("button", name="Save the rules").click()
        expect(page.locator(".notice")).to_contain_text("1 rule changed.")
    assert shop.queue.queue_config(name).max_depth == 40


def test_hostile_names_do_nothing(shop: Shop) -> None:
    if not shop.queue.count(queue=HOSTILE_NAME).jobs:
        shop.queue.submit(HOSTILE_NAME, HOSTILE, queue=HOSTILE_NAME, metadata={"<b>": HOSTILE})
    with shop.page() as page:
        page.goto(shop.url("queues"))
        page.get_by_role("link", name="<img src=x").click()
        expect(page.locator("h1")).to_contain_text("<img src=x onerror=alert(1)>")
        page.goto(shop.url("jobs"))
        page.locator("tbody tr", has_text="onerror").locator("a").first.click()
        expect(page.locator("main")).to_contain_text("<script>alert(1)</script> \\u202eevil")


def test_who_may_only_look_has_no_buttons(shop: Shop) -> None:
    with shop.page("consumer") as page:
        page.goto(shop.url("queue?name=mail"))
        expect(page.locator("h1")).to_have_text("mail")
        expect(page.locator(".actions")).to_have_count(0)
        expect(page.get_by_role("link", name="Audit")).to_have_count(0)
        expect(page.locator("#live")).to_have_text("not live")


SET_HIDDEN = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
"""What a browser tells a page whose tab is left, or chosen again."""


def test_hidden_tabs_have_no_stream_and_the_visible_ones_share_one(shop: Shop) -> None:
    followers = shop.service.api.followers
    until(lambda: not followers)
    name = f"hidden{shop.root.replace('/', '-')}"
    first = shop.queue.submit("a", queue=name)
    with shop.page("operator") as page:
        tabs = [page, page.context.new_page(), page.context.new_page()]
        for tab in tabs:
            tab.goto(shop.url(f"job?id={first.id}"))
            # The others are told by the one that has the stream, though nothing happens.
            expect(tab.locator("#live")).to_have_text("live")
        assert len(followers) == 1
        [stream] = followers
        page.evaluate(SET_HIDDEN, True)
        until(lambda: len(followers) == 1 and stream not in followers)
        for tab in tabs[1:]:
            tab.evaluate(SET_HIDDEN, True)
        until(lambda: not followers)
        shop.queue.cancel(first)
        tabs[2].evaluate(SET_HIDDEN, False)
        expect(tabs[2].locator("#head")).to_contain_text("cancelled")
        until(lambda: len(followers) == 1)
        expect(page.locator("#head")).to_contain_text("pending")


def test_a_stream_that_was_refused_is_asked_for_again(shop: Shop) -> None:
    with shop.page("operator") as page:
        page.route("**/events", lambda route: route.fulfill(status=502), times=1)
        page.goto(shop.url("queues"))
        expect(page.locator("#live")).to_have_text("reconnecting")
        expect(page.locator("#live")).to_have_text("live")


def test_a_page_whose_session_has_ended_says_so(shop: Shop) -> None:
    with shop.page("operator") as page:
        page.goto(shop.url("jobs?q=status:dead"))
        expect(page.locator("#live")).to_have_text("live")
        page.context.clear_cookies()
        shop.queue.submit("a", queue="ended")
        expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
        page.get_by_role("link", name="Log in again").click()
        expect(page.locator("h1")).to_have_text("Log in")
        assert page.locator("input[name=to]").input_value() == "jobs?q=status:dead"


def test_a_page_whose_token_was_revoked_asks_for_events_no_more(shop: Shop) -> None:
    with shop.page("operator", noise="401") as page:
        page.goto(shop.url("jobs"))
        expect(page.locator("#live")).to_have_text("live")
        for each in shop.service.store.tokens():
            shop.service.store.revoke_token(each.name, actor="test")
        expect(page.get_by_role("alert")).to_contain_text("Your session has ended")
        expect(page.locator("#live")).to_have_text("not live")


def test_a_deploy_that_broke_a_task_is_found_and_mended_from_the_overview(shop: Shop) -> None:
    name = f"deployed{shop.root.replace('/', '-')}"
    shop.queue.mark_deploy(f"v-{name}")
    jobs = [shop.queue.submit("shop:breaks", queue=name) for _ in range(3)]
    for _ in jobs:
        lease = shop.queue.lease(name)
        assert lease is not None
        shop.queue.nack(lease, f"no price in {name}", requeue=False)
    with (
        shop.page("operator") as page,
        TaskQueue(shop.queue.store, num_workers=1, queues=name) as q,
    ):
        q.task(name="shop:breaks")(works)
        page.goto(shop.url("."))
        expect(page.locator("#verdict")).to_contain_text(f"Since v-{name} was deployed")
        expect(page.locator("#verdict a").first).to_contain_text("in shop:breaks")
        row = page.locator("#failures tr", has_text=f"no price in {name}")
        expect(row).to_contain_text(f"new since v-{name}"[:24])
        row.get_by_role("link").click()
        page.get_by_role("button", name="Replay", exact=True).first.click()
        expect(page.locator("#head")).to_contain_text("completed")
        page.go_back()
        expect(page.locator("#figures")).to_contain_text("Dead letters2")
        page.get_by_role("button", name="Replay the group").click()
        page.get_by_role("button", name="Replay 2 jobs").click()
        expect(page.locator("main")).to_contain_text("2 of 2 replayed")
        until(lambda: shop.queue.count(queue=name, status="completed").jobs == 3)
