"""Charts to point at, in a real browser: cursor, span, series, colours, and what stays as it is."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.shop import Shop, until
from dashboard.test_browser import AXE, RUN_AXE

CHARTS: Final = 6
MINUTES: Final = 60
GAP: Final = range(20, 40)
INK = """(box) => {
    const [r, g, b] = getComputedStyle(box.parentElement.querySelector("[data-line] path"))
        .stroke.match(/\\d+/g).map(Number);
    const canvas = box.querySelector("canvas");
    const {data, width} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const columns = new Set();
    for (let i = 0; i < data.length; i += 4)
        if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255)
            columns.add((i / 4) % width);
    return [...columns];
}"""
"""The columns of a chart's canvas that have a point in just the colour of its first line."""
STILL: Final = "not live"
"""A page for somebody who may not follow the store: it changes for no reason but what they do."""
READS: Final = "willReadFrequently"
"""Chromium warns of pictures that are read."""
SET_VALUES = """(values) => {
    const box = document.querySelectorAll("[data-values]")[2];
    box.dataset.values = JSON.stringify([values]);
    htmx.trigger(box.closest("#charts"), "htmx:load");
}"""


def opened(page: Page, shop: Shop, name: str, live: str = "live") -> Locator:
    """The charts of a queue, drawn; the first of them."""
    page.goto(shop.url(f"queue?name={name}"))
    expect(page.locator(".uplot canvas")).to_have_count(CHARTS)
    expect(page.locator("#live")).to_have_text(live)
    return page.locator("[data-values]").first


def place(chart: Locator, share: float) -> tuple[float, float]:
    """A point of a chart, from its left (0) to its right (1)."""
    chart.scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    return box["x"] + share * (box["width"] - 1), box["y"] + box["height"] / 2


def dragged(page: Page, chart: Locator, first: float, last: float) -> None:
    page.mouse.move(*place(chart, first))
    page.mouse.down()
    page.mouse.move(*place(chart, last), steps=4)
    page.mouse.up()
    expect(page.locator("#span")).to_be_visible()


def pointed(page: Page, chart: Locator, share: float) -> str:
    """What the chart tells of this place."""
    page.mouse.move(*place(chart, share))
    expect(chart.locator(".tip")).to_be_visible()
    return chart.locator(".tip").inner_text()


def row(chart: Locator, number: int) -> list[str]:
    cells = chart.locator("tbody tr").nth(number).locator("td")
    return [each.strip() for each in cells.all_text_contents()]


def submitted(chart: Locator) -> int:
    cells = chart.locator("tbody td:nth-child(2)").all_text_contents()
    return sum(int(each) for each in cells)


def name_of(shop: Shop, what: str, jobs: int = 3) -> str:
    name = f"{what}{shop.root.replace('/', '-')}"
    for _ in range(jobs):
        shop.queue.submit("a", queue=name)
    return name


def test_one_cursor_tells_the_values_of_all_charts(shop: Shop) -> None:
    name = name_of(shop, "pointed")
    with shop.page("consumer", timezone_id="UTC") as page:
        chart = opened(page, shop, name, STILL)
        counts = chart.locator("tbody td:nth-child(2)").all_text_contents()
        busy = next(place for place, count in enumerate(counts) if count != "0")
        at, in_, out = row(chart, busy)
        told = pointed(page, chart, busy / (MINUTES - 1))
        assert told == f"{at[-5:]} · submitted {in_} · completed {out}"
        expect(page.locator(".tip:not([hidden])")).to_have_count(CHARTS)
        for tip in page.locator(".tip").all_text_contents():
            assert tip.startswith(at[-5:])
        assert pointed(page, chart, 0).startswith(row(chart, 0)[0][-5:])
        page.mouse.move(1, 1)
        expect(page.locator(".tip:not([hidden])")).to_have_count(0)


@pytest.mark.parametrize("by", ["the button", "a double click"])
def test_a_span_is_chosen_on_all_charts_and_left_again(shop: Shop, by: str) -> None:
    name = name_of(shop, "spanned")
    with shop.page("consumer", timezone_id="UTC") as page:
        chart = opened(page, shop, name, STILL)
        expect(page.locator("#span")).to_be_hidden()
        dragged(page, chart, 15 / (MINUTES - 1), 30 / (MINUTES - 1))
        other = page.locator("[data-values]").last
        for each in (chart, other):
            assert pointed(page, each, 0).startswith(row(chart, 15)[0][-5:])
            assert pointed(page, each, 1).startswith(row(chart, 30)[0][-5:])
        expect(page.locator("[data-span]")).to_contain_text(row(chart, 15)[0][-5:])
        if by == "the button":
            page.get_by_role("button", name="Whole time").focus()
            page.keyboard.press("Enter")
        else:
            page.mouse.dblclick(*place(chart, 0.5))
        expect(page.locator("#span")).to_be_hidden()
        for each in (chart, other):
            assert pointed(page, each, 0).startswith(row(chart, 0)[0][-5:])


def test_the_jobs_of_a_span_are_one_click_away(shop: Shop) -> None:
    name = name_of(shop, "listed")
    with shop.page("operator") as page:
        chart = opened(page, shop, name)
        dragged(page, chart, 0.9, 1)
        page.get_by_role("link", name="Jobs submitted then").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        assert re.search(rf"queue:{name} created>=\S+ created<\S+", page.input_value("#search"))
        page.go_back()
        expect(page.locator(".uplot canvas")).to_have_count(CHARTS)
        dragged(page, chart, 0.1, 0.5)
        page.get_by_role("link", name="Jobs ended then").click()
        expect(page.locator(".empty")).to_contain_text("Nothing matches")
        assert " ended>=" in page.input_value("#search")
        page.go_back()
        page.locator("#over-30d").click()
        until(lambda: page.evaluate("charts.get('Throughput').step") == 24 * 3600)
        dragged(page, chart, 0.9, 1)
        page.get_by_role("link", name="Jobs submitted then").click()
        expect(page.locator("tbody tr")).to_have_count(3)
        # Days are those of UTC, and whole.
        days = re.findall(r"[<>]=?(\S+)", page.input_value("#search"))
        assert [each[-9:] for each in days] == ["T00:00:00"] * 2


def test_new_figures_come_into_the_chart_that_is_there(shop: Shop) -> None:
    name = name_of(shop, "renewed")
    with shop.page("operator") as page:
        chart = opened(page, shop, name)
        dragged(page, chart, 0.5, 1)
        chosen = page.locator("[data-span]").inner_text()
        page.locator("[data-line] button", has_text="completed").first.click()
        page.evaluate("window.canvas = document.querySelector('canvas')")
        before = submitted(chart)
        shop.queue.submit("a", queue=name)
        until(lambda: submitted(chart) == before + 1)
        assert page.evaluate("window.canvas === document.querySelector('canvas')")
        data = page.evaluate("charts.get('Throughput').plot.data[1]")
        assert sum(data) == before + 1
        # What was chosen stays: the span, and the lines that are shown.
        expect(page.locator("[data-span]")).to_have_text(chosen)
        assert "completed" not in pointed(page, chart, 0.5)
        button = page.locator("[data-line] button", has_text="completed").first
        expect(button).to_have_attribute("aria-pressed", "false")


def test_a_span_that_is_past_is_left(shop: Shop) -> None:
    name = name_of(shop, "past")
    with shop.page("consumer") as page:
        chart = opened(page, shop, name, STILL)
        dragged(page, chart, 0.25, 0.5)
        page.evaluate(
            """() => {
                const boxes = [...document.querySelectorAll("[data-values]")];
                for (const box of boxes) box.dataset.begin = Number(box.dataset.begin) + 3600;
                htmx.trigger(document.getElementById("charts"), "htmx:load");
            }"""
        )
        expect(page.locator("#span")).to_be_hidden()


def test_lines_are_shown_and_hidden_from_the_legend(shop: Shop) -> None:
    name = name_of(shop, "toggled")
    with shop.page("consumer") as page:
        chart = opened(page, shop, name, STILL)
        button = page.locator("[data-line] button", has_text="submitted").first
        button.focus()
        page.keyboard.press("Space")
        expect(button).to_have_attribute("aria-pressed", "false")
        assert "submitted" not in pointed(page, chart, 0.5)
        assert "completed 0" in pointed(page, chart, 0.5)
        button.click()
        assert "submitted" in pointed(page, chart, 0.5)


def test_the_colours_of_charts_follow_the_theme(shop: Shop) -> None:
    name = name_of(shop, "coloured")
    with shop.page("consumer", noise=READS, color_scheme="light") as page:
        chart = opened(page, shop, name, STILL)
        waiting = page.locator("[data-values]").nth(2)
        expect(waiting.locator("canvas")).to_be_visible()
        ink = "getComputedStyle(document.querySelectorAll('[data-line] path')[4]).stroke"
        light = page.evaluate(ink)
        assert waiting.evaluate(INK)
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(ink) != light
        until(lambda: bool(waiting.evaluate(INK)))
        expect(chart).to_be_visible()


def test_a_gap_is_a_gap_and_a_lone_value_a_dot(shop: Shop) -> None:
    name = name_of(shop, "gapped")

    def values(known: Any) -> list[int | None]:
        return [5 if known(n) else None for n in range(MINUTES)]

    with shop.page("consumer", noise=READS) as page:
        opened(page, shop, name, STILL)
        chart = page.locator("[data-values]").nth(2)
        page.evaluate(SET_VALUES, values(lambda _: True))
        line = sorted(chart.evaluate(INK))
        left, step = line[0], (line[-1] - line[0]) / (MINUTES - 1)
        inside = {round(left + step * each) for each in GAP}
        assert inside & set(line)
        page.evaluate(SET_VALUES, values(lambda n: n not in GAP))
        drawn = set(chart.evaluate(INK))
        assert drawn
        assert not inside & drawn
        page.evaluate(SET_VALUES, values(lambda n: n == GAP[5]))
        dot = chart.evaluate(INK)
        assert dot
        assert all(abs(each - (left + step * GAP[5])) <= 4 for each in dot), (dot, left, step)


def test_deploys_are_marked_with_their_names(shop: Shop) -> None:
    name = name_of(shop, "marked")
    with shop.page("operator") as page:
        page.add_init_script(
            """window.written = [];
            const write = CanvasRenderingContext2D.prototype.fillText;
            CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
                window.written.push(text);
                return write.call(this, text, ...at);
            };"""
        )
        opened(page, shop, name)
        label = f"v9-{name}"[:19]
        assert not [each for each in page.evaluate("window.written") if each.startswith(label)]
        shop.queue.mark_deploy(f"v9-{name}")
        shop.queue.submit("a", queue=name)
        until(lambda: any(each.startswith(label) for each in page.evaluate("window.written")))


def test_a_chart_has_the_width_that_there_is(shop: Shop) -> None:
    name = name_of(shop, "resized")
    with shop.page("consumer") as page:
        chart = opened(page, shop, name, STILL)
        for width in (1280, 360, 900):
            page.set_viewport_size({"width": width, "height": 800})
            until(
                lambda: chart.evaluate(
                    "box => box.querySelector('.uplot').offsetWidth"
                    " === box.querySelector('.plot').clientWidth"
                )
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_finger_chooses_a_span_too(shop: Shop) -> None:
    name = name_of(shop, "touched")
    phone: Any = {"width": 360, "height": 740}
    with shop.page("consumer", has_touch=True, viewport=phone) as page:
        chart = opened(page, shop, name, STILL)
        session = page.context.new_cdp_session(page)
        kinds = ("touchStart", "touchMove", "touchMove", "touchMove", "touchEnd")
        for kind, share in zip(kinds, (0.2, 0.3, 0.5, 0.7, 0.7), strict=True):
            x, y = place(chart, share)
            points = [] if kind == "touchEnd" else [{"x": x, "y": y}]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        expect(page.locator("#span")).to_be_visible()


def test_a_chart_in_use_is_accessible_and_stays_within_its_policy(shop: Shop) -> None:
    name = name_of(shop, "audited")
    with shop.page("consumer") as page:
        page.add_init_script(
            "window.broken = [];"
            "addEventListener('securitypolicyviolation', (each) => broken.push(each.blockedURI));"
        )
        chart = opened(page, shop, name, STILL)
        dragged(page, chart, 0.25, 0.5)
        page.locator("[data-line] button").first.click()
        pointed(page, chart, 0.5)
        page.evaluate(AXE)
        assert page.evaluate(RUN_AXE)["violations"] == []
        assert page.evaluate("broken") == []
        # The picture of the server, and its table, are what a screen reader is told.
        expect(page.locator(".uplot[aria-hidden=true]")).to_have_count(CHARTS)
        expect(page.get_by_role("img", name="Throughput")).to_have_count(1)


def test_nothing_moves_when_the_scripts_have_come(shop: Shop) -> None:
    name = name_of(shop, "unmoved")
    box = "#charts"
    for size in ({"width": 1280, "height": 800}, {"width": 360, "height": 740}):
        with shop.page("consumer", java_script_enabled=False, viewport=size) as page:
            page.goto(shop.url(f"queue?name={name}"))
            before = page.locator(box).bounding_box()
        with shop.page("consumer", viewport=size) as page:
            opened(page, shop, name, STILL)
            assert page.locator(box).bounding_box() == before


def test_without_scripts_charts_are_the_servers(shop: Shop) -> None:
    name = name_of(shop, "still")
    with shop.page("operator", java_script_enabled=False) as page:
        page.goto(shop.url(f"queue?name={name}"))
        expect(page.locator("svg.lines")).to_have_count(CHARTS)
        expect(page.locator("svg.lines").first).to_be_visible()
        expect(page.locator("#span")).to_be_hidden()
        expect(page.locator(".legend button")).to_have_count(0)
        page.get_by_role("link", name="24 hours").click()
        expect(page.locator("svg.lines")).to_have_count(CHARTS)
        page.get_by_text("Table").first.click()
        expect(page.locator("tbody").first).to_be_visible()
