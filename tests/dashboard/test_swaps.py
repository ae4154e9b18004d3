"""Lists that change without their page, in a real browser: addresses, focus, late answers."""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import Page, Route, expect

from dashboard.shop import Shop, until

MORE: Final = 60
"""Jobs, for more than one page."""
KEEP: Final = "window.stays = true"
STAYS: Final = "window.stays === true"
AGAIN: Final = "x-leasehold-again"


def name_of(shop: Shop, what: str, jobs: int = 1) -> str:
    """A queue with some jobs."""
    name = f"{what}{shop.root.replace('/', '-')}"
    for _ in range(jobs):
        shop.queue.submit("a", queue=name)
    return name


def opened(page: Page, shop: Shop, path: str) -> None:
    page.goto(shop.url(path))
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate(KEEP)


def tab(page: Page, name: str) -> None:
    page.locator(f"#tab-{name}").click()
    expect(page.locator(f"#tab-{name}")).to_have_attribute("aria-current", "true")


def asked(page: Page) -> list[str]:
    """The searches that this page asks the server for from now on."""
    found: list[str] = []

    def note(url: str) -> None:
        found.extend(re.findall(r"[?&]q=([^&]*)", url))

    page.on("request", lambda sent: note(sent.url) if AGAIN not in sent.headers else None)
    return found


def held(page: Page, pattern: str) -> list[Route]:
    """Answers to such addresses are held back until somebody continues them."""
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

    page.route(re.compile(pattern), hold)
    return routes


def arrived(page: Page, routes: list[Route]) -> None:
    """Wait for a request that is held back: it is told of while the page is asked for something."""
    until(lambda: bool(page.evaluate("true") and routes))


def test_a_tab_changes_the_list_and_the_address_and_back_returns(shop: Shop) -> None:
    name = name_of(shop, "tabbed", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        expect(page.locator("tbody tr")).to_have_count(3)
        tab(page, "dead")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("#search")).to_have_value(f"queue:{name} status:dead")
        assert page.url.endswith(f"/jobs?q=queue%3A{name}+status%3Adead")
        assert "status%3Adead" in (page.locator("#exports a").first.get_attribute("href") or "")
        expect(page.locator("#tab-dead")).to_be_focused()
        expect(page.locator("#told")).to_contain_text("1 job matches")
        page.go_back()
        expect(page.locator("tbody tr")).to_have_count(3)
        expect(page.locator("#search")).to_have_value(f"queue:{name}")
        assert page.url.endswith(f"/jobs?q=queue:{name}")
        page.go_forward()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("#search")).to_have_value(f"queue:{name} status:dead")
        assert page.evaluate(STAYS), "the page was loaded as a whole"


def test_the_list_follows_what_is_typed_once_a_word_is_whole(shop: Shop) -> None:
    name = name_of(shop, "typed", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        page.clock.install()
        opened(page, shop, "jobs")
        box = page.locator("#search")
        entries = page.evaluate("history.length")
        searches = asked(page)
        box.press_sequentially("sta")
        page.clock.run_for(1000)
        box.press_sequentially("tus:dead ")
        expect(page.locator("#tab-dead")).to_have_attribute("aria-current", "true")
        box.press_sequentially(f"queue:{name}")
        expect(page).to_have_url(re.compile(rf"jobs\?q=status%3Adead%20queue%3A{name}$"))
        expect(page.locator("tbody tr")).to_have_count(1)
        # Parts of words were not looked for, and the caret is where it was.
        assert {each for each in searches if each} <= {
            "status%3Adead",
            "status%3Adead%20",
            f"status%3Adead%20queue%3A{name}",
        }
        expect(box).to_be_focused()
        expect(box).to_have_value(f"status:dead queue:{name}")
        # One entry of the history for all of it; Enter makes another.
        assert page.evaluate("history.length") == entries
        assert page.evaluate(STAYS)
        box.press_sequentially(" sta")
        expect(page.locator("#completions option").first).to_have_attribute(
            "value", f"status:dead queue:{name} status:"
        )


def test_a_mistake_is_explained_on_enter_and_not_while_typing(shop: Shop) -> None:
    name = name_of(shop, "mistaken")
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        box = page.locator("#search")
        with page.expect_response(lambda answer: answer.status == 400):
            box.press_sequentially(" stauts:dead")
        expect(page.locator("#region[aria-busy]")).to_have_count(0)
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("alert")).to_have_count(0)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("did you mean “status”?")
        expect(box).to_have_attribute("aria-describedby", "problem")
        expect(box).to_be_focused()
        expect(page.locator("#exports a")).to_have_count(0)
        page.keyboard.press("Control+A")
        box.press_sequentially(f"queue:{name}")
        page.keyboard.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("alert")).to_have_count(0)
        assert page.evaluate(STAYS)


def test_enter_is_not_overtaken_by_what_was_typed_before(shop: Shop) -> None:
    name = name_of(shop, "hasty")
    with shop.page("operator") as page:
        page.clock.install()
        opened(page, shop, f"jobs?q=queue:{name}")
        routes = held(page, "stauts")
        # No time passes until Enter was pressed; then more than a word that is typed waits.
        page.clock.pause_at(page.evaluate("Date.now()") + 60_000)
        page.locator("#search").press_sequentially(" stauts:dead")
        page.keyboard.press("Enter")
        arrived(page, routes)
        page.clock.run_for(1000)
        routes[0].continue_()
        page.clock.resume()
        expect(page.get_by_role("alert")).to_contain_text("did you mean “status”?")
        assert len(routes) == 1


def test_older_jobs_begin_at_the_top_and_columns_are_chosen(shop: Shop) -> None:
    name = name_of(shop, "paged", MORE)
    with shop.page("operator", viewport={"width": 1280, "height": 500}) as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        page.get_by_role("link", name="Older").click()
        expect(page.locator("tbody tr")).to_have_count(MORE - 50)
        expect(page.locator("#tab-all")).to_be_in_viewport()
        expect(page.locator("#region")).to_be_focused()
        assert "cursor=" in page.url
        page.get_by_role("link", name="Newest").click()
        expect(page.locator("tbody tr")).to_have_count(50)
        page.get_by_text("Columns", exact=True).click()
        page.get_by_label("worker").check()
        page.get_by_role("button", name="Show these").click()
        expect(page.locator("th", has_text="Worker")).to_have_count(1)
        assert page.evaluate(STAYS)


def test_a_list_that_changed_lives_on(shop: Shop) -> None:
    name = name_of(shop, "living", 2)
    with shop.page("operator") as page:
        page.add_init_script("window.setInterval = () => 0")
        opened(page, shop, f"jobs?q=queue:{name}")
        tab(page, "pending")
        page.locator(".pick input").first.check()
        expect(page.locator("[data-chosen]")).to_have_text("Apply to the 1 selected:")
        shop.queue.submit("a", queue=name)
        page.locator(".new-rows").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        expect(page.locator(".new-rows")).to_have_count(0)
        # Its times are told as everywhere, and not by what is done every second.
        expect(page.locator("tbody time").first).to_have_attribute("data-utc", re.compile("UTC"))
        expect(page.locator("[data-chosen]")).to_contain_text("all 3 matching jobs")
        page.keyboard.press("j")
        expect(page.locator("tr[aria-selected]")).to_have_count(1)
        assert page.evaluate(STAYS)


def test_a_look_that_began_before_is_not_put_into_the_new_list(shop: Shop) -> None:
    name = name_of(shop, "looked", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        looks: list[Route] = []

        def hold(route: Route) -> None:
            if AGAIN in route.request.headers and not looks:
                looks.append(route)
            else:
                route.continue_()

        page.route("**/jobs?*", hold)
        job = shop.queue.submit("a", queue=name)
        until(lambda: page.evaluate("looking") and bool(looks))
        tab(page, "dead")
        # The look is told of the whole list, and comes late.
        looks[0].continue_()
        until(lambda: not page.evaluate("looking"))
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr.left")).to_have_count(0)
        expect(page.locator(".new-rows")).to_have_count(0)
        assert shop.queue.store.get(job.id) is not None


def test_a_look_whose_body_comes_late_is_not_put_into_the_new_list(shop: Shop) -> None:
    name = name_of(shop, "trickled", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        page.add_init_script(
            """const text = Response.prototype.text;
            window.holds = window.goOn = null;
            Response.prototype.text = async function () {
                const told = await text.call(this);
                if (window.holds) await new Promise((go) => { window.goOn = go; });
                return told;
            };"""
        )
        opened(page, shop, f"jobs?q=queue:{name}")
        page.evaluate("window.holds = true")
        shop.queue.submit("a", queue=name)
        until(lambda: page.evaluate("goOn !== null"))
        tab(page, "dead")
        page.evaluate("goOn()")
        until(lambda: not page.evaluate("looking"))
        # Not to be waited for: the next look puts it right.
        assert page.locator(".new-rows").count() == 0


def test_no_look_changes_a_list_that_is_on_its_way_back(shop: Shop) -> None:
    name = name_of(shop, "returning", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        tab(page, "dead")
        routes: list[Route] = []

        def hold(route: Route) -> None:
            if AGAIN in route.request.headers:
                route.continue_()
            else:
                routes.append(route)

        page.route("**/jobs?*", hold)
        page.evaluate("history.back()")
        arrived(page, routes)
        looked = page.evaluate("lookedAt")
        shop.queue.submit("a", queue=name)
        until(lambda: page.evaluate(f"lookedAt > {looked} && !looking"))
        # Its address is that of the whole list by now.
        expect(page.locator("tbody tr")).to_have_count(1)
        assert page.locator(".new-rows").count() == 0
        routes[0].continue_()
        expect(page.locator("tbody tr")).to_have_count(4)
        shop.queue.submit("a", queue=name)
        expect(page.locator(".new-rows")).to_contain_text("1 new")
        assert page.evaluate(STAYS)


def test_what_is_typed_after_enter_stays_and_is_looked_for(shop: Shop) -> None:
    name = name_of(shop, "eager", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        page.clock.install()
        opened(page, shop, "jobs")
        routes = held(page, rf"q=queue%3A{name}&")
        # No time passes until the first answer has come.
        page.clock.pause_at(page.evaluate("Date.now()") + 60_000)
        box = page.locator("#search")
        box.fill(f"queue:{name}")
        page.keyboard.press("Enter")
        arrived(page, routes)
        box.press_sequentially(" status:dead")
        with page.expect_response(lambda answer: answer.url == routes[0].request.url):
            routes[0].continue_()
        expect(page.locator("tbody tr")).to_have_count(3)
        expect(box).to_have_value(f"queue:{name} status:dead")
        page.clock.resume()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(box).to_be_focused()
        expect(box).to_have_value(f"queue:{name} status:dead")


def test_an_answer_that_comes_late_is_not_shown(shop: Shop) -> None:
    name = name_of(shop, "late", 2)
    shop.dead(name)
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        routes = held(page, "status%3Apending")
        page.locator("#tab-pending").click()
        expect(page.locator("#region")).to_have_attribute("aria-busy", "true")
        arrived(page, routes)
        tab(page, "dead")
        with page.expect_response(lambda answer: "pending" in answer.url):
            routes[0].continue_()
        expect(page.locator("#region[aria-busy]")).to_have_count(0)
        page.evaluate("new Promise((done) => setTimeout(done))")
        expect(page.locator("#tab-dead")).to_have_attribute("aria-current", "true")
        assert page.url.endswith("status%3Adead")
        expect(page.locator("tbody tr")).to_have_count(1)


def test_a_list_that_cannot_be_loaded_says_so_and_stays(shop: Shop) -> None:
    name = name_of(shop, "broken", 2)
    shop.dead(name)
    with shop.page("operator", noise="htmx:", viewport={"width": 1280, "height": 300}) as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        for fail, words in (
            (lambda route: route.fulfill(status=503, body="busy"), "the server answered 503"),
            (lambda route: route.abort(), "the server does not answer"),
        ):
            page.route("**/jobs?*dead*", fail)
            page.locator("#tab-dead").click()
            expect(page.get_by_role("alert")).to_contain_text(words)
            expect(page.get_by_role("alert")).to_be_in_viewport()
            expect(page.locator("#region[aria-busy]")).to_have_count(0)
            expect(page.locator("tbody tr")).to_have_count(3)
            assert page.url.endswith(f"jobs?q=queue:{name}")
            page.unroute("**/jobs?*dead*")
        tab(page, "dead")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.route("**/jobs?*pending*", lambda route: route.fulfill(status=500, body="?"))
        page.locator("#tab-pending").click()
        expect(page.get_by_role("alert")).to_contain_text("500")
        page.unroute("**/jobs?*pending*")
        page.get_by_role("link", name="Try again").click()
        expect(page.locator("#tab-pending")).to_have_attribute("aria-current", "true")


def test_a_session_that_ended_leads_to_the_login_and_back(shop: Shop) -> None:
    name = name_of(shop, "left")
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        page.context.clear_cookies()
        page.locator("#tab-dead").click()
        expect(page.locator("h1")).to_have_text("Log in")
        wanted = f"jobs?q=queue%3A{name}+status%3Adead"
        assert page.locator("input[name=to]").input_value() == wanted
        page.fill("#token", shop.service.token("operator"))
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#search")).to_have_value(f"queue:{name} status:dead")


def test_charts_of_another_time_keep_the_place_of_the_page(shop: Shop) -> None:
    name = name_of(shop, "timed")
    with shop.page("operator", viewport={"width": 1280, "height": 500}) as page:
        opened(page, shop, f"queue?name={name}")
        expect(page.locator(".uplot canvas")).to_have_count(6)
        page.locator("#over-24h").scroll_into_view_if_needed()
        top = page.evaluate("scrollY")
        page.evaluate("canvas = document.querySelector('canvas')")
        page.locator("#over-24h").click()
        expect(page.locator("#over-24h")).to_have_attribute("aria-current", "true")
        expect(page.locator("#over-24h")).to_be_focused()
        until(lambda: page.evaluate("charts.get('Throughput').plot.data[0].length") == 144)
        assert page.evaluate("scrollY") == top
        assert "over=24h" in page.url
        assert page.evaluate("canvas === document.querySelector('canvas')")
        page.go_back()
        until(lambda: page.evaluate("charts.get('Throughput').plot.data[0].length") == 60)
        expect(page.locator("#over-1h")).to_have_attribute("aria-current", "true")
        # It is live as before.
        shop.queue.submit("a", queue=name)
        until(lambda: sum(page.evaluate("charts.get('Throughput').plot.data[1]")) == 2)
        assert page.evaluate(STAYS)


def test_failures_dead_letters_and_queues_change_in_place(shop: Shop) -> None:
    name = name_of(shop, "sorted")
    shop.dead(name)
    many = f"many-at{shop.root.replace('/', '-')}"
    for number in range(11):
        shop.queue.submit("a", queue=f"{many}:{number}")
    with shop.page("operator") as page:
        opened(page, shop, f"failures?queue={name}")
        page.locator("#by-count").click()
        expect(page.locator("#by-count")).to_have_attribute("aria-current", "true")
        expect(page.locator("#by-count")).to_be_focused()
        assert page.url.endswith(f"failures?queue={name}&by=count")
        assert page.evaluate(STAYS)
        opened(page, shop, "dead-letters")
        page.locator("nav[aria-label=Queue] a", has_text=name).click()
        expect(page).to_have_url(re.compile(f"queue={name}$"))
        expect(page.locator("tbody tr")).to_have_count(1)
        assert page.evaluate(STAYS)
        opened(page, shop, "queues")
        page.locator("#search").press_sequentially(f"{many}:1".upper())
        expect(page.locator("#queues tbody tr")).to_have_count(2)
        expect(page.locator("#search")).to_be_focused()
        page.locator("#search").press_sequentially("7")
        expect(page.locator(".empty")).to_contain_text("Nothing matches")
        page.get_by_role("link", name="Show all queues").click()
        expect(page.locator("#queues tbody tr").nth(11)).to_be_visible()
        expect(page.locator("#search")).to_have_value("")
        # The box is another one by now, and is listened to as well.
        page.locator("#search").press_sequentially(f"{many}:1")
        expect(page.locator("#queues tbody tr")).to_have_count(2)
        assert page.evaluate(STAYS)


def test_no_page_is_kept_in_the_browser_and_no_text_is_run(shop: Shop) -> None:
    name = name_of(shop, "kept")
    with shop.page("operator") as page:
        opened(page, shop, f"jobs?q=queue:{name}")
        tab(page, "dead")
        tab(page, "pending")
        kept = page.evaluate("Object.values({...sessionStorage, ...localStorage}).join()")
        assert "<" not in kept
        config = page.evaluate("htmx.config")
        assert not config["allowEval"]
        assert not config["allowScriptTags"]
        assert not config["includeIndicatorStyles"]
        assert config["selfRequestsOnly"]
        assert page.locator("head style").count() == 0
