"""Dramatiq on Redis: two processes of eight threads."""

from __future__ import annotations

import sys
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.rivals import effects

broker: Any = RedisBroker(url=effects.URL)
dramatiq.set_broker(broker)
_actor: Any = dramatiq.actor(effects.run, actor_name="effect")


def submit(number: int, sent: float, seconds: float) -> None:
    _actor.send(number, sent, seconds)


def work() -> None:
    from dramatiq.cli import main, make_argument_parser

    module = "benchmarks.rivals.dramatiq_redis"
    arguments = [module, "--processes=2", "--threads=8", "--skip-logging"]
    sys.exit(main(make_argument_parser().parse_args(arguments)))
