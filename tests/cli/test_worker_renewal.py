"""`worker restart` and `worker start --reload`: new code, and at no time nobody at work."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Shell
from cli.crews import Gate, crews, eventually, gate, live_workers, running
from cli.seed import store_of
from cli.terminal import Terminal
from leasehold import TaskQueue
from leasehold.cli.workers.watch import Watch

__all__ = ["crews", "gate"]

SHOP = """
from leasehold import TaskQueue

queue = TaskQueue("leasehold.db", num_workers=0)


@queue.task
def price() -> int:
    return {price}
"""


def write(shell: Shell, price: str) -> None:
    (shell.folder / "shop.py").write_text(SHOP.format(price=price))


def price_of(shell: Shell) -> int:
    with store_of(shell) as queue:
        found: int = queue.submit("shop:price").result(timeout=60)
        return found


@pytest.fixture
def shop(crews: Shell) -> Shell:
    """An application with a worker in the background."""
    write(crews, "1")
    crews.ok("worker", "start", "--import", "shop", "--background", "--allow-commands")
    return crews


def pids(shell: Shell) -> set[int]:
    return {file.record.pid for file in live_workers(shell)}


def test_restart_takes_new_code_and_lets_old_jobs_finish(shop: Shell, gate: Gate) -> None:
    before = pids(shop)
    assert price_of(shop) == 1
    job = shop.ok("enqueue", "--command", gate.command, "--id", "slow").out.strip()
    eventually(running(shop, job))
    write(shop, "1 + 1")
    waiting = shop.run("worker", "restart", "--timeout", "0.5s")
    assert waiting.code == 124
    assert "are still finishing their jobs" in waiting.err
    # The new one is at work, while the old one holds its job.
    eventually(lambda: price_of(shop) == 2)
    gate.open()
    eventually(lambda: not before & pids(shop))
    assert shop.ok("show", job, "-o", "json").json["job"]["status"] == "completed"
    [again] = shop.ok("worker", "restart", "-o", "json").json
    assert again["restarted"] is True


def test_restart_with_broken_code_leaves_the_old_workers_at_work(crews: Shell) -> None:
    shop = crews
    write(shop, "1")
    shop.ok("worker", "start", "--import", "shop", "--background", "--count", "2")
    before = pids(shop)
    write(shop, "1 +")
    done = shop.run("worker", "restart")
    assert done.code == 1
    assert "the old ones keep running: see `worker logs`" in done.err
    assert pids(shop) == before
    assert price_of(shop) == 1
    logged = shop.ok("worker", "logs").out
    assert "SyntaxError" in logged
    assert "the old ones keep running the old code" in logged
    assert "all workers have been restarted" not in logged


def test_workers_of_a_terminal_say_there_why_they_did_not_restart(crews: Shell) -> None:
    write(crews, "1")
    with Terminal(
        crews.command("worker", "start", "--import", "shop"),
        cwd=crews.folder,
        env=crews.environment,
        columns=120,
        lines=60,
    ) as terminal:
        terminal.see("ready: 1 worker")
        write(crews, "1 +")
        done = crews.run("worker", "restart")
        [crew] = crews.ok("worker", "status", "-o", "json").json
        told = f"see the terminal of pid {crew['crew_pid']}"
        assert (done.code, told in done.err) == (1, True), done.err
        terminal.see("SyntaxError")
        assert told in crews.run("worker", "logs").err
        terminal.press("\x03")
        assert terminal.end() == 0


def test_restart_of_nothing(shell: Shell) -> None:
    shell.ok("init")
    with TaskQueue(shell.folder / "leasehold.db", num_workers=1) as queue:
        queue.submit("elsewhere")  # Its first job starts its worker.
        [own] = eventually(queue.workers)
        done = shell.run("worker", "restart")
    assert (done.code, done.err) == (
        3,
        f"not restarted: {own.id} was not started by queuectl; restart it yourself\n",
    )
    done = shell.run("worker", "restart")
    assert (done.code, done.err) == (
        3,
        "no worker process of this store is running on this machine\n",
    )
    done = shell.run("worker", "start", "--reload", "--background")
    assert done.code == 2
    assert "worker restart" in done.err


def test_reload_follows_every_save(crews: Shell) -> None:
    write(crews, "1")
    with Terminal(
        crews.command("worker", "start", "--import", "shop", "--reload"),
        cwd=crews.folder,
        env=crews.environment,
        columns=120,
        lines=60,
    ) as terminal:
        terminal.see("ready: 1 worker")
        assert price_of(crews) == 1
        write(crews, "20 +")
        terminal.see("shop.py has changed", "SyntaxError", "keep running the old code")
        assert price_of(crews) == 1
        write(crews, "20 + 30")
        terminal.see("all workers have been restarted")
        assert price_of(crews) == 50
        terminal.press("\x03")
        assert terminal.end() == 0


def test_a_watch_tells_each_change_once(tmp_path: Path) -> None:
    for name in ("app.py", "notes.txt", ".venv/lib.py", "part/deep.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    watch = Watch(str(tmp_path))
    assert watch.changed() is None
    for name in ("notes.txt", ".venv/lib.py"):
        (tmp_path / name).write_text("22")
    assert watch.changed() is None
    (tmp_path / "part/deep.py").write_text("22")
    assert watch.changed() == "part/deep.py"
    assert watch.changed() is None
    (tmp_path / "app.py").unlink()
    assert watch.changed() == "app.py"
