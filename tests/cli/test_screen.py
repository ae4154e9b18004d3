"""What `top` shows and what its keys do, without a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cli.seed import HOSTILE, assert_harmless
from leasehold.cli import top
from leasehold.cli.keys import parse
from leasehold.cli.overview import Overview
from leasehold.cli.screen import HELP, SORTS, Quit, SetState, View
from leasehold.cli.session import Session
from leasehold.core.model.records import Stats
from leasehold.errors import StoreUnavailableError

START = datetime(2030, 1, 1, tzinfo=UTC)


def queue(name: str, state: str = "active", **figures: Any) -> dict[str, Any]:
    lately = {
        "throughput_per_second": 0.0, "error_rate": 0.0, "oldest_pending_age_seconds": None,
        "wait_p95_seconds": None, "run_p95_seconds": None,
    }  # fmt: skip
    return {"queue": name, "state": state, **Stats(counts={}).as_mapping(), **lately, **figures}


def worker(name: str = "w/1", **fields: Any) -> dict[str, Any]:
    return {
        "id": name, "host": "h", "pid": 7, "queues": ("default",), "slots": 4, "running": 1,
        "started_at": START, "heartbeat_at": START, **fields,
    }  # fmt: skip


def job(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "task": "shop:send", "worker": "w/1", "running_seconds": 75, **fields}


def overview(*queues: dict[str, Any], workers: Any = (), **lately: Any) -> Overview:
    numbers = Stats(counts={}).as_mapping()
    total = {name: sum(each[name] for each in queues) for name in numbers}
    lately = {"window_seconds": 300, "rates": {"submitted": 4.0, "completed": 2.5}, **lately}
    return Overview(START, "jobs.db", total, queues, workers, **lately)


def shown(view: View, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.plain for line in view.frame(width, height))


@pytest.fixture
def view() -> View:
    view = View(1.0)
    view.saw(overview(queue("a", pending=1), queue("b", pending=3), queue("c", dead=2)))
    return view


def test_every_figure_is_of_one_window_which_is_named() -> None:
    view = View(1.0)
    failure = {
        "task": "shop:send", "error_type": "OSError", "message": "mail is down", "count": 7,
        "last_at": START - timedelta(seconds=42),
    }  # fmt: skip
    view.saw(overview(queue("a"), failures=[failure]))
    screen = shown(view)
    assert "submitted 4.0/s  completed 2.5/s  in the last 5m" in screen
    assert "FAILED    in the last 5m" in screen
    assert "42s ago  shop:send: OSError: mail is down" in screen


@pytest.mark.parametrize("width", [80, 120])
def test_running_jobs_are_there_by_the_ends_of_their_ids(width: int) -> None:
    view = View(1.0)
    running = [job("019a8f3c-7d10-7e5f-9b5a-3f0c2d1e4a6b"), job("nightly", running_seconds=3)]
    view.saw(overview(queue("a"), workers=[worker()], running=running))
    lines = shown(view, width).splitlines()
    at = next(n for n, line in enumerate(lines) if "RUNNING JOB" in line)
    assert lines[at].split() == ["RUNNING", "JOB", "TASK", "WORKER", "FOR"]
    assert lines[at + 1].split() == ["…2d1e4a6b", "shop:send", "w/1", "75s"]
    assert lines[at + 2].split() == ["nightly", "shop:send", "w/1", "3s"]


def test_what_happened_lately_where_there_is_room() -> None:
    view = View(1.0)
    lately: dict[str, Any] = {"throughput_per_second": 12.34, "error_rate": 0.015}
    times: dict[str, Any] = {
        "oldest_pending_age_seconds": 75, "run_p95_seconds": 0.25, "wait_p95_seconds": 4.2,
    }  # fmt: skip
    view.saw(overview(queue("a", pending=1, **lately, **times)))
    wide = next(line for line in shown(view, 120).splitlines() if line.startswith("> a"))
    assert wide.split()[3:] == ["1", "0", "0", "0", "12.3", "75s", "1.5", "250ms", "4.2s"]
    heading = next(line for line in shown(view, 80).splitlines() if "QUEUE " in line)
    assert heading.split()[2:] == [
        "PENDING", "RUNNING", "WAITING", "DEAD", "DONE/S", "OLDEST", "FAIL%",
    ]  # fmt: skip


def test_selecting_and_sorting(view: View) -> None:
    assert view.selected == "a"
    for key, name in (("k", "a"), ("j", "b"), ("down", "c"), ("j", "c"), ("up", "b")):
        view.press(key)
        assert view.selected == name
    view.press("s")
    assert [row["queue"] for row in view.rows()] == ["b", "a", "c"]
    assert view.selected == "b", "who is selected stays selected"
    for _ in SORTS[1:]:
        view.press("s")
    assert view.sort == "queue"
    view.saw(overview(queue("z")))
    assert view.selected == "z"
    view.saw(overview())
    assert view.selected is None


def test_a_queue_is_paused_only_after_a_yes(view: View) -> None:
    assert view.press(" ") is None
    assert "pause queue 'a'? y/n" in shown(view)
    assert view.press("q") is None, "no is no, and not the end"
    assert HELP in shown(view)
    view.press(" ")
    assert view.press("y") == SetState("a", "pause")
    for state in ("paused", "draining"):
        view.saw(overview(queue("a", state=state)))
        view.press(" ")
        assert "resume queue 'a'? y/n" in shown(view)
        assert view.press("Y") == SetState("a", "resume")


def test_a_yes_means_what_was_asked(view: View) -> None:
    view.press(" ")
    view.saw(overview(queue("b"), queue("c")))
    assert view.selected == "b"
    assert "pause queue 'a'? y/n" in shown(view)
    assert view.press("y") == SetState("a", "pause")


def test_with_no_queue_there_is_nothing_to_pause() -> None:
    view = View(1.0)
    view.saw(overview())
    view.press(" ")
    assert view.asking is None
    assert "there is no queue yet" in shown(view)
    assert "no worker is running" in shown(view)


def test_hold_and_quit(view: View) -> None:
    view.press("p")
    assert view.held
    assert "held" in shown(view)
    assert isinstance(view.press("q"), Quit)


@given(
    st.integers(20, 150),
    st.integers(3, 50),
    st.integers(0, 60),
    st.integers(0, 20),
    st.lists(st.sampled_from(["j", "k", "s", "p", " ", "n"]), max_size=30),
)
def test_every_screen_is_full_of_lines_that_fit(
    width: int, height: int, queues: int, workers: int, keys: list[str]
) -> None:
    view = View(1.0)
    view.saw(
        overview(
            *(queue(f"queue {number} 漢字 " + "x" * number) for number in range(queues)),
            workers=[worker(f"w/{number}") for number in range(workers)],
            running=[job(f"job {number} 漢字") for number in range(workers)],
        )
    )
    for key in keys:
        view.press(key)
    lines = view.frame(width, height)
    assert len(lines) == height
    assert all(cell_len(line.plain) <= width for line in lines)
    if queues and height >= 12:
        assert any(line.plain.startswith(">") for line in lines), "the selected one is in sight"


def test_what_is_cut_is_seen_to_be_cut() -> None:
    view = View(1.0)
    queues = ("default", "carrier-pigeons")
    view.saw(overview(queue("a" * 200), workers=[worker("w" * 60, queues=queues)]))
    lines = shown(view).splitlines()
    [of_queue] = [line for line in lines if line.startswith("> aaa")]
    assert "a… active" in of_queue
    [of_worker] = [line for line in lines if line.startswith("  www")]
    assert "www…www" in of_worker, "the end of a worker's id tells it from others"
    assert " default,ca" in of_worker
    assert of_worker.count("…") == 2


def test_names_cannot_garble_it() -> None:
    view = View(1.0)
    hostile = job(HOSTILE, task=HOSTILE, worker=HOSTILE)
    view.saw(overview(queue(HOSTILE, pending=1), workers=[worker(HOSTILE)], running=[hostile]))
    view.press(" ")
    assert_harmless(shown(view))
    view.press("n")
    view.message = HOSTILE
    assert_harmless(shown(view))


def test_a_store_in_trouble_is_said_and_not_the_end(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session, *, window_seconds: float) -> Overview:
        raise StoreUnavailableError("the disk is away")

    monkeypatch.setattr(top, "look", fail)
    top._look_again(Session(), view, 300)
    assert "the store cannot be read: the disk is away" in shown(view)
    assert [row["queue"] for row in view.rows()] == ["a", "b", "c"], "what was seen stays"
    view.saw(overview(queue("a")))
    assert HELP in shown(view)


@given(st.binary(max_size=64))
def test_whatever_is_typed_is_some_keys_or_none(data: bytes) -> None:
    view = View(1.0)
    view.saw(overview(queue("a")))
    for key in parse(data):
        view.press(key)
    assert shown(view)
