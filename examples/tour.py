"""A tour of Leasehold in a few seconds: `make run`.

It makes a store in a temporary folder, submits jobs of several priorities, lets workers run them,
shows one that fails and is retried with backoff, one that ends in the dead letters and is replayed,
and the statistics at the end. The store is removed at last, unless it is to be kept (`--keep`).
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from leasehold import Exponential, JobFailedError, PermanentError, TaskQueue, current_job

# The worker's own log would only repeat what is shown here.
logging.getLogger("leasehold").addHandler(logging.NullHandler())
KEEP = "--keep"
store = Path(tempfile.mkdtemp(prefix="leasehold-tour-")) / "jobs.db"
# This one process both submits and runs; with a single slot the order of service can be seen.
queue = TaskQueue(store, num_workers=1)
printing = threading.Lock()
card_works = threading.Event()


def say(text: str) -> None:
    with printing:
        print(text, flush=True)


@queue.task(name="resize")
def resize(picture: str) -> str:
    say(f"    resize({picture!r}) runs")
    return picture.replace(".png", "-small.png")


@queue.task(name="fetch", max_retries=3, retry=Exponential(initial_seconds=0.2, jitter=0.1))
def fetch(url: str) -> int:
    attempt = current_job().attempt
    if attempt < 3:
        say(f"    fetch, attempt {attempt}: the network is down")
        raise ConnectionError(f"cannot reach {url}")
    say(f"    fetch, attempt {attempt}: it answers")
    return 200


@queue.task(name="charge")
def charge(customer: str, cents: int) -> str:
    if not card_works.is_set():
        raise PermanentError(f"the card of {customer} was refused")
    return f"{customer} paid {cents / 100:.2f}"


def main() -> None:
    print("A new store, in a temporary folder.\n")

    print("1. Jobs of several priorities, submitted in one call, run in the order of priority:")
    waiting = queue.submit_many(
        [
            resize.options(priority="low").job("holiday.png"),
            resize.job("dinner.png"),
            resize.options(priority="high").job("passport.png"),
            resize.options(priority="critical").job("front-page.png"),
        ]
    )
    queue.wait(waiting, timeout=30)
    print(f"    the first result: {waiting[0].result(timeout=30)!r}\n")

    print("2. A failing job is retried with backoff, until it succeeds:")
    flaky = fetch.submit("https://example.com")
    print(f"    its result: {flaky.result(timeout=30)}")
    for attempt in queue.attempts(flaky):
        print(f"    attempt {attempt.number}: {attempt.outcome}  {attempt.message}")

    print("\n3. A job that fails for good is in the dead letters, with everything known about it:")
    refused = charge.submit("Ada", 4200)
    try:
        refused.result(timeout=30)
    except JobFailedError as error:
        print(f"    {error}")
    for letter in queue.dead_letters.list():
        print(f"    dead letter: {letter.task} {letter.payload}")
    print("    someone fixes the cause and replays it:")
    card_works.set()
    queue.dead_letters.replay(refused)
    print(f"    {refused.result(timeout=30)}")

    print("\n4. Everything that happened to it:")
    for event in queue.history(refused):
        print(f"    {event.sequence}. {event.event:<10} {event.after or '':<10} {event.message}")

    print("\n5. Statistics, read from counters, without scanning jobs:")
    for name, count in queue.get_queue_stats().items():
        if count:
            print(f"    {name:<16} {count}")
    problems = queue.check()
    print(f"    integrity check: {'; '.join(problems) or 'ok'}")
    queue.shutdown()


if __name__ == "__main__":
    try:
        main()
    finally:
        if KEEP in sys.argv:
            queuectl = Path(sys.executable).with_name("queuectl")
            print(f"\nThe store is still there to look at: {queuectl} --store {store} list")
        else:
            queue.shutdown(wait=False)
            shutil.rmtree(store.parent, ignore_errors=True)
            print(f"\nThe store is removed; `python {sys.argv[0]} {KEEP}` leaves it to look at.")
