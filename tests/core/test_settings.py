"""The registry of settings, and what they fill in: pure rules, held for all inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.job import Draft
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import RetentionPolicy
from leasehold.core.model.retry import Constant, Exponential
from leasehold.core.model.settings import (
    DEFINITIONS,
    RETENTION_NAMES,
    DraftDefaults,
    SettingDefinition,
    SettingKind,
    SettingValue,
    check_setting,
    draft_defaults,
    parse_setting,
    retention_by,
    retention_values,
)
from leasehold.errors import InvalidSettingError

definitions = st.sampled_from(list(DEFINITIONS.values()))


def values_of(definition: SettingDefinition) -> st.SearchStrategy[SettingValue]:
    least, most = definition.least, definition.most
    if definition.kind is SettingKind.COUNT:
        allowed: st.SearchStrategy[Any] = st.integers(int(least), int(most))
    else:
        whole = st.integers(-int(-least // 1), int(most)).map(float)
        allowed = st.floats(least, most) | whole
    return allowed if definition.none_means is None else allowed | st.none()


settings = st.fixed_dictionaries(
    {}, optional={name: values_of(definition) for name, definition in DEFINITIONS.items()}
)
drafts = st.builds(
    Draft,
    id=st.just("job"),
    task=st.just("work"),
    max_retries=st.none() | st.integers(0, 9),
    retry=st.none() | st.just(Constant(1)),
    timeout_seconds=st.none() | st.floats(1, 9),
)


def answer(ask: Callable[[], SettingValue]) -> tuple[SettingValue, str | None]:
    """The value, or why it was refused."""
    try:
        return ask(), None
    except InvalidSettingError as error:
        return None, str(error)


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
def test_every_definition_is_whole(definition: SettingDefinition) -> None:
    assert definition.check(definition.default) == definition.default
    assert definition.help.endswith(".")
    assert definition.acts
    assert definition.check(definition.least) == definition.least
    assert definition.check(definition.most) == definition.most


@given(st.data(), definitions)
def test_what_is_shown_is_understood(data: st.DataObject, definition: SettingDefinition) -> None:
    value = data.draw(values_of(definition))
    assert definition.check(value) == value
    assert definition.parse(definition.show(value)) == value


@given(definitions, st.floats() | st.integers() | st.text() | st.booleans() | st.none())
def test_what_is_refused_says_why_and_the_rest_is_within_bounds(
    definition: SettingDefinition, value: Any
) -> None:
    kept, refusal = answer(lambda: definition.check(value))
    if refusal is not None:
        assert refusal == f"{definition.name} cannot be {value!r}: it must be {definition.allowed}"
    elif kept is None:
        assert definition.none_means is not None
    else:
        assert not isinstance(value, bool | str)
        assert definition.least <= kept <= definition.most


@given(definitions, st.text())
def test_any_text_is_a_value_or_refused(definition: SettingDefinition, text: str) -> None:
    value, refusal = answer(lambda: definition.parse(text))
    assert repr(text) in refusal if refusal else definition.check(value) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), (" 5m ", 300), ("1.5h", 5400), ("1D", 86400), ("1500ms", 1.5),
     ("2 h", 7200)],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_setting("lease_seconds", text) == seconds


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("lease_seconds", "none", "lease_seconds cannot be 'none': it must be a duration from 1s"),
        ("lease_seconds", "5 minutes", "cannot be '5 minutes'"),
        ("lease_seconds", "-5s", "cannot be '-5s'"),
        ("lease_seconds", "2d", "to 1d"),
        ("lease_seconds", "", "cannot be ''"),
        ("max_retries", "3s", "it must be a whole number from 0 to 1,000,000"),
        ("max_retries", "2.5", "a whole number"),
        ("backoff_factor", "1e999", "a number from 1 to 100"),
        ("max_retry", "3", "did you mean 'max_retries'"),
        ("colour", "red", "there are max_retries, backoff_base"),
    ],
)
def test_a_bad_text_is_refused_in_its_own_words(name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        parse_setting(name, text)
    assert words in str(caught.value)


def test_a_whole_number_may_come_as_a_float() -> None:
    kept = check_setting("max_retries", 5.0)
    assert (kept, type(kept)) == (5, int)
    assert type(check_setting("lease_seconds", 60)) is float


@given(settings, drafts)
def test_only_what_a_draft_leaves_open_is_filled_in(
    values: dict[str, SettingValue], draft: Draft
) -> None:
    defaults = draft_defaults(values) or DraftDefaults()
    filled = defaults.applied_to(draft)
    for name in Draft.__struct_fields__:
        own = getattr(draft, name)
        if own is None and name in DraftDefaults.__struct_fields__:
            own = getattr(defaults, name)
        assert getattr(filled, name) == own


@given(settings)
def test_nothing_is_filled_in_unless_somebody_said_so(values: dict[str, SettingValue]) -> None:
    named = {"max_retries", "backoff_base", "backoff_factor", "backoff_max", "backoff_jitter"}
    said = bool(named & values.keys()) or values.get("timeout_seconds") is not None
    assert (draft_defaults(values) is not None) == said


def test_a_backoff_keeps_what_is_not_set() -> None:
    defaults = draft_defaults({"backoff_base": 3.0, "backoff_jitter": 0.0})
    assert defaults is not None
    assert defaults.retry == Exponential(initial_seconds=3.0, jitter=0.0)


@given(settings)
def test_a_policy_changes_by_what_is_set_and_in_nothing_else(
    values: dict[str, SettingValue],
) -> None:
    default = RetentionPolicy(worth_cleaning=7)
    policy = retention_by(values, default)
    set_now = {name: value for name, value in values.items() if name in RETENTION_NAMES}
    assert retention_values(policy) == {**retention_values(default), **set_now}
    assert (policy.worth_cleaning, policy.archive_seconds) == (7, default.archive_seconds)


seconds = st.none() | st.floats(0, 1e6)
own = st.fixed_dictionaries({}, optional=dict.fromkeys(QueueRetention.__struct_fields__, seconds))


@given(own, seconds, seconds, seconds)
def test_a_queues_own_word_goes_before_the_stores(
    said: dict[str, float | None], completed: float, cancelled: float, dead: float
) -> None:
    policy = RetentionPolicy(
        completed_seconds=completed, cancelled_seconds=cancelled, dead_seconds=dead
    )
    both = QueueRetention(**said).over(policy)
    for name in QueueRetention.__struct_fields__:
        assert getattr(both, name) == said.get(name, getattr(policy, name))
