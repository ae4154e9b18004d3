"""The pictures of the dashboard in the documentation: `python -m tools.screenshots`.

It serves the day of examples/busy_day.py and takes the pictures with the browser that the tests
use. They are looked at by a person before they are committed.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
WIDE: Any = {"width": 1280, "height": 860}
TALL: Any = {"width": 1280, "height": 1280}
MARGIN = 16
PHONE: Any = {"width": 390, "height": 860}
PICTURES: tuple[tuple[str, str, str, Any], ...] = (
    ("overview", ".?over=24h", "light", TALL),
    ("failure", "failures?queue=billing > a", "light", WIDE),
    ("job", "dead-letters > a", "dark", WIDE),
    ("workflow", "workflows > a", "light", WIDE),
    ("jobs", "jobs?q=status:dead,failed", "light", WIDE),
    ("phone", ".", "dark", PHONE),
)
"""Name, page (after `>`, the first such link of a row is followed), colours and size."""


def main(program: str, port: int = 8702) -> None:
    from leasehold.dashboard import dashboard_routes
    from leasehold.service.api import Api
    from leasehold.service.server import bind, make_server

    module = _busy_day()
    day = module.Day()
    day.play()
    stop = threading.Event()
    threading.Thread(target=module.go_on, args=(day, stop), daemon=True).start()
    listener = bind("127.0.0.1", port)
    api = Api(day.store, env=day.env, insecure=True)
    started = threading.Event()
    server, sockets = make_server(api, listener, beside=dashboard_routes, on_started=started.set)
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    thread.start()
    started.wait()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for picture in PICTURES:
            _take(browser, f"http://127.0.0.1:{port}/dashboard/", *picture)
        _take_span(browser, f"http://127.0.0.1:{port}/dashboard/?over=24h")
        browser.close()
    stop.set()
    server.should_exit = True
    thread.join()
    api.close()


def _busy_day() -> Any:
    spec = importlib.util.spec_from_file_location("busy_day", ROOT / "examples/busy_day.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _take(browser: Browser, base: str, name: str, path: str, scheme: Any, size: Any) -> None:
    page = browser.new_page(viewport=size, color_scheme=scheme)
    path, _, link = path.partition(" > ")
    page.goto(base + path)
    if link:
        page.locator(f"tbody tr[data-row] {link}").first.click()
        page.wait_for_load_state()
    page.locator("#live[data-state=on]").wait_for()
    page.screenshot(path=ROOT / f"docs/dashboard-{name}.png")
    page.close()


def _take_span(browser: Browser, address: str) -> None:
    """Charts of a part of the day, with the cursor on them."""
    # All of it fits, so that nothing scrolls away from the pointer.
    page = browser.new_page(viewport={"width": 1280, "height": 2000}, color_scheme="dark")
    page.goto(address)
    page.locator("#live[data-state=on]").wait_for()
    chart = page.locator(".u-over").first
    chart.hover(position={"x": 240, "y": 60})
    page.mouse.down()
    chart.hover(position={"x": 330, "y": 60})
    page.mouse.up()
    page.locator("#span").wait_for()
    chart.hover(position={"x": 160, "y": 60})
    page.locator(".tip:not([hidden])").first.wait_for()
    box: Any = page.locator("#region").bounding_box()
    clip: Any = {
        "x": box["x"] - MARGIN,
        "y": box["y"] - MARGIN,
        "width": box["width"] + 2 * MARGIN,
        "height": box["height"] + 2 * MARGIN,
    }
    page.screenshot(path=ROOT / "docs/dashboard-charts.png", clip=clip)
    page.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/usr/bin/chromium")
