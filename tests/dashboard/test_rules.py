"""The rules of a queue and the settings, changed by a form."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from dashboard.conftest import People
from leasehold import QueueConfig
from leasehold.dashboard.queue_rules import GROUPS, RULE_NAMES, changes_of, texts_of

SHOWN = re.compile(r'name="shown" value="([^"]*)"')


def opened(client: httpx.Client, queue: str) -> dict[str, str]:
    """What the form of a queue's rules sends if nobody changes anything."""
    page = client.get("queue-rules", params={"name": queue})
    assert page.status_code == 200, page.text
    boxes = re.findall(r'<input type="text" id="(\w+)" name="\w+" value="([^"]*)"', page.text)
    found = SHOWN.search(page.text)
    assert found is not None
    filled = {name: unescape(value) for name, value in boxes}
    return {"order": "update-queue", "queue": queue, "shown": unescape(found[1]), **filled}


def test_every_rule_is_in_the_form_once() -> None:
    assert sorted(RULE_NAMES) == sorted(QueueConfig.__struct_fields__)
    assert len(GROUPS) > 1


def test_an_empty_field_shows_the_setting_that_applies(people: People) -> None:
    """A grey "none" would read as no retries."""
    people.queue.create_queue("plain")
    people.queue.settings.set("lease_seconds", "7m")
    page = people.somebody("operator").get("queue-rules", params={"name": "plain"}).text
    people.queue.settings.unset("lease_seconds")
    hints = dict(re.findall(r'name="(\w+)" value="" placeholder="([^"]*)"', page))
    assert hints["max_retries"] == "3 (setting)"
    assert hints["lease_seconds"] == "7m (setting)"
    assert hints["max_depth"] == "none"


def test_a_form_that_nobody_changed_changes_nothing(people: People) -> None:
    people.queue.create_queue("calm", max_depth=5, aging_factor=None, retry=[1, 10])
    before = people.queue.queue_info("calm")
    client = people.somebody("operator")
    answer = client.post("do", data=opened(client, "calm"))
    assert answer.status_code == 303, answer.text
    assert people.queue.queue_info("calm") == before


def test_rules_are_changed_under_ones_own_name(people: People) -> None:
    people.queue.create_queue("strict", max_depth=5, retry=[1, 10])
    client = people.somebody("operator", name="grace")
    form = opened(client, "strict")
    changes = {"max_depth": "", "max_concurrency": "3", "retry": "30", "fifo_mode": "on"}
    answer = client.post("do", data={**form, **changes})
    assert answer.status_code == 303, answer.text
    config = people.queue.queue_config("strict")
    assert (config.max_depth, config.max_concurrency, config.fifo_mode) == (None, 3, True)
    assert config.retry == QueueConfig.of({"retry": {"type": "constant", "seconds": 30}}).retry
    assert people.queue.audit_log(1)[0].actor == "token:grace"


def test_what_somebody_else_changed_meanwhile_stays(people: People) -> None:
    people.queue.create_queue("shared-rules", max_depth=5)
    client = people.somebody("operator")
    form = opened(client, "shared-rules")
    people.queue.update_queue("shared-rules", max_depth=50)
    client.post("do", data={**form, "max_concurrency": "2"})
    config = people.queue.queue_config("shared-rules")
    assert (config.max_depth, config.max_concurrency) == (50, 2)


@pytest.mark.parametrize(
    ("rule", "typed"),
    [("max_depth", "many"), ("max_depth", "0"), ("rate_per_second", "-1"), ("retry", "{"),
     ("lease_seconds", "nan"), ("retention", '{"ever": 1}')],
)  # fmt: skip
def test_a_mistake_is_told_in_the_form_and_changes_nothing(
    people: People, rule: str, typed: str
) -> None:
    people.queue.create_queue(f"wrong-{rule}", max_concurrency=2)
    client = people.somebody("operator")
    form = {**opened(client, f"wrong-{rule}"), rule: typed, "max_concurrency": "9"}
    answer = client.post("do", data=form)
    assert 400 <= answer.status_code < 500
    assert 'id="problem"' in answer.text
    assert rule in answer.text
    assert 'value="9"' in answer.text, "what was typed is lost"
    assert people.queue.queue_config(f"wrong-{rule}").max_concurrency == 2


def test_a_switch_that_was_turned_off_stays_off_when_the_form_comes_again(people: People) -> None:
    people.queue.create_queue("switched", fifo_mode=True)
    client = people.somebody("operator")
    # A box without a tick is not sent.
    refused = client.post("do", data={**opened(client, "switched"), "max_depth": "many"})
    switch = re.search(r'<input type="checkbox" id="fifo_mode"[^>]*>', refused.text)
    assert switch is not None
    assert "checked" not in switch[0]


def test_texts_and_changes_fit_together() -> None:
    config = QueueConfig(max_depth=7, aging_factor=None, deadline_weight=1.5, fifo_mode=True)
    assert QueueConfig.of(changes_of(texts_of(config), {})).max_depth == 7
    assert changes_of(texts_of(config), texts_of(config)) == {}
    assert QueueConfig.of(changes_of(texts_of(config), texts_of(QueueConfig()))) == config


def test_who_may_only_look_cannot_change_rules_or_settings(people: People) -> None:
    people.queue.create_queue("fixed")
    client = people.somebody("observer")
    form = opened(client, "fixed")
    assert client.post("do", data={**form, "max_depth": "1"}).status_code == 403
    setting = {"order": "set-setting", "name": "max_retries", "value": "9"}
    assert client.post("do", data=setting).status_code == 403
    assert "Save the rules" not in client.get("queue-rules?name=fixed").text


def test_a_rule_that_somebody_else_has_changed_meanwhile_is_not_replaced_unseen(
    people: People,
) -> None:
    people.queue.create_queue("shared", max_depth=4, max_concurrency=2)
    first, second = people.somebody("operator"), people.somebody("operator")
    forms = opened(first, "shared"), opened(second, "shared")
    saved = {"max_depth": "7", "max_concurrency": "2"}
    assert first.post("do", data={**forms[0], **saved}).status_code == 303
    typed = {"max_depth": "9", "max_concurrency": "2"}
    refused = second.post("do", data={**forms[1], **typed})
    assert refused.status_code == 422
    assert "max_depth was changed meanwhile, from 4 to 7: save again" in refused.text
    assert people.queue.queue_info("shared").config.max_depth == 7
    shown = SHOWN.search(refused.text)
    assert shown is not None
    again = {**forms[1], **typed, "shown": unescape(shown[1])}
    assert second.post("do", data=again).status_code == 303
    assert people.queue.queue_info("shared").config.max_depth == 9
    assert people.queue.queue_info("shared").config.max_concurrency == 2


def test_a_setting_is_set_and_unset(people: People) -> None:
    client = people.somebody("operator", name="linus")
    form = {"order": "set-setting", "name": "lease_seconds", "value": "7m"}
    assert client.post("do", data=form).status_code == 303
    assert people.queue.settings.get("lease_seconds") == 420
    assert people.queue.audit_log(1)[0].actor == "token:linus"
    wrong = client.post("do", data={**form, "value": "soon"})
    assert wrong.status_code in (400, 422)
    assert "lease_seconds cannot be" in wrong.text
    assert 'value="soon"' in wrong.text
    assert "data-follow" not in wrong.text
    assert "data-follow" in client.get("settings").text
    client.post("do", data={"order": "unset-setting", "name": "lease_seconds"})
    assert people.queue.settings.get("lease_seconds") != 420
