"""The form of a queue's rules: each rule as a text, and a person's changes to it.

The form returns the texts it showed, so that only a person's own changes are made: a rule that
another person changed meanwhile stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from leasehold.core.model.durations import duration_text
from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueConfig
from leasehold.documents.described import described
from leasehold.errors import InvalidQueueError
from leasehold.queue.queues import DURATIONS, plain_rules

GROUPS: Final = {
    "Limits": "max_depth max_concurrency rate_per_second client_rate_per_second starts_per_second",
    "Limits of each key": "key_concurrency key_rate_per_second key_starts_per_second",
    "Defaults for jobs": "lease_seconds max_retries retry",
    "Order of service": (
        "fifo_mode max_priority aging_factor max_aging_bonus retry_penalty deadline_weight "
        "deadline_horizon rebalance_interval"
    ),
    "How long ended jobs are kept": "retention",
}
RULE_NAMES: Final = " ".join(GROUPS.values()).split()
_COUNTS: Final = {"max_depth", "max_concurrency", "key_concurrency", "max_retries", "max_priority"}
_DATA: Final = {
    "retry": "delays such as 5s, 1m, or a policy as JSON",
    "retention": 'JSON, such as {"completed_seconds": 3600}',
}


@dataclass(frozen=True)
class RuleField:
    """One rule in the form."""

    name: str
    help: str
    text: str
    """The text in the box; empty for none."""
    hint: str
    """The grey text in the box while it is empty."""
    is_switch: bool


def rule_groups(
    texts: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, list[RuleField]]:
    """The form, by groups, filled in with these texts. Where a queue has no rule, the store's
    setting of that name applies.
    """
    helps = described(QueueConfig)
    return {
        title: [
            RuleField(
                name,
                helps.get(name, ""),
                texts.get(name, ""),
                _DATA.get(name) or _default_text(name, settings),
                name == "fifo_mode",
            )
            for name in names.split()
        ]
        for title, names in GROUPS.items()
    }


def _default_text(name: str, settings: Mapping[str, str]) -> str:
    if name in settings:
        return f"{settings[name]} (setting)"
    value = getattr(DEFAULT_CONFIG, name)
    if value is not None and name in DURATIONS:
        return duration_text(value)
    return text_of(value) or "none"


def texts_of(config: QueueConfig) -> dict[str, str]:
    """The rules of a queue as texts; rules with the default value are empty."""
    return {
        name: text_of(value) or "none" if value != getattr(DEFAULT_CONFIG, name) else ""
        for name, value in asdict(config).items()
    }


def text_of(value: Any) -> str:
    """A rule's value as a person writes it.

    >>> text_of(None), text_of(5.0), text_of(0.25), text_of(True)
    ('', '5', '0.25', 'on')
    """
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    if isinstance(value, int | float):
        return f"{value:.15g}"
    return msgspec.json.encode(value).decode()


def changes_of(given: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, Any]:
    """The rules whose text differs from the one that was shown; raises InvalidQueueError.

    >>> changes_of({"max_depth": "100", "max_retries": ""}, {"max_depth": "", "max_retries": "3"})
    {'max_depth': 100, 'max_retries': None}
    """
    return {
        name: _value(name, given.get(name, "").strip())
        for name in RULE_NAMES
        if given.get(name, "").strip() != shown.get(name, "")
    }


def _value(name: str, text: str) -> Any:
    if name == "fifo_mode":
        return text == "on"
    if not text:
        return getattr(DEFAULT_CONFIG, name)
    if text == "none":
        return None
    if name in _DATA:
        return _data(name, text)
    if name in DURATIONS:
        return plain_rules({name: text})[name]
    try:
        return int(text) if name in _COUNTS else float(text)
    except ValueError:
        kind = "a whole number" if name in _COUNTS else "a number"
        raise InvalidQueueError(f"{name} must be {kind}, not {text!r}") from None


def _data(name: str, text: str) -> Any:
    """A rule that is more than a number."""
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        if name != "retry" or text[:1] in "{[":
            raise InvalidQueueError(f"{name} must be {_DATA[name]}: {error}") from None
        data = [each.strip() for each in text.split(",")]  # "1s, 1m", as on the command line.
    # A retry policy in full is read where the other rules are.
    is_policy = name == "retry" and isinstance(data, dict)
    return data if is_policy else plain_rules({name: data})[name]
