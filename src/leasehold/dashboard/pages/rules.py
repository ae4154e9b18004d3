"""The rules of a queue as a form, and the settings, one form each."""

from __future__ import annotations

import msgspec

from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.settings import parse_setting
from leasehold.dashboard.action import OPERATOR, Action, Fields, given, operation_of
from leasehold.dashboard.queue_rules import RULE_NAMES, changes_of, rule_groups, texts_of
from leasehold.dashboard.shown import link
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.errors import InvalidQueueError, InvalidRequestError
from leasehold.service.api import OPERATIONS
from leasehold.service.caller import Caller
from leasehold.service.queue_operators import SetSetting, UpdateQueue

_BY_NAME = {each.name: each for each in OPERATIONS}


# -- the rules of a queue --------------------------------------------------------------------------


def queue_rules(desk: Desk, visit: Visit) -> FilledPage:
    info = desk.queue.queue_info(visit.text("name"))
    texts = texts_of(info.config)
    return _rules_page(desk, info, texts, texts, None)


def _rules_page(
    desk: Desk,
    info: QueueInfo,
    texts: dict[str, str],
    shown: dict[str, str],
    problem: str | None,
) -> FilledPage:
    return FilledPage(
        "queue_rules.html",
        {
            "title": f"Rules of queue {info.name}",
            "page": "queues",
            "now": desk.queue.now(),
            "info": info,
            "groups": rule_groups(texts, _stored_settings(desk)),
            "shown": msgspec.json.encode(shown).decode(),
            "problem": problem,
        },
    )


def _stored_settings(desk: Desk) -> dict[str, str]:
    """What applies to all processes that have no value of their own."""
    return {
        each.name: each.default_text if each.stored is None else each.definition.show(each.stored)
        for each in desk.queue.settings.list()
    }


def _update_queue(desk: Desk, caller: Caller, fields: Fields) -> int:
    shown = _shown(fields)
    changes = changes_of(fields, shown)
    now = texts_of(desk.queue.queue_info(given(fields, "queue")).config)
    if changes:
        for name in changes:
            if now[name] not in (shown.get(name, ""), fields.get(name, "").strip()):
                raise InvalidQueueError(
                    f"{name} was changed meanwhile, from {shown.get(name) or 'none'} to "
                    f"{now[name] or 'none'}: save again to replace that"
                )
        request = UpdateQueue(queue=given(fields, "queue"), changes=changes)
        desk.api.call(_BY_NAME["update_queue"], caller, request)
    return len(changes)


def _rules_again(desk: Desk, fields: Fields, problem: str) -> FilledPage:
    info = desk.queue.queue_info(given(fields, "queue"))
    shown, now = _shown(fields), texts_of(info.config)
    # What the person left alone is shown as it is now; what they typed stays.
    given_now = {name: fields.get(name, "") for name in RULE_NAMES}
    typed = {name: text for name, text in given_now.items() if text.strip() != shown.get(name, "")}
    return _rules_page(desk, info, {**now, **typed}, now, problem)


def _shown(fields: Fields) -> dict[str, str]:
    """What stood in the form when the person got it."""
    try:
        return msgspec.json.decode(given(fields, "shown"), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"the form does not say what it showed: {error}") from None


# -- settings --------------------------------------------------------------------------------------


def settings(desk: Desk, visit: Visit) -> FilledPage:
    return _settings_page(desk, {}, None)


def _settings_page(desk: Desk, typed: dict[str, str], problem: str | None) -> FilledPage:
    return FilledPage(
        "settings.html",
        {
            "title": "Settings",
            "page": "settings",
            "settings": desk.queue.settings.list(),
            "typed": typed,
            "problem": problem,
        },
    )


def _set_setting(desk: Desk, caller: Caller, fields: Fields) -> int:
    name = given(fields, "name")
    value = parse_setting(name, given(fields, "value"))
    desk.api.call(_BY_NAME["set_setting"], caller, SetSetting(name=name, value=value))
    return 1


def _settings_again(desk: Desk, fields: Fields, problem: str) -> FilledPage:
    return _settings_page(desk, {given(fields, "name"): fields.get("value", "")}, problem)


def _to_settings(_: Fields) -> str:
    return "settings"


RULE_ORDERS = {
    "update-queue": Action(
        OPERATOR, _update_queue, "{rules} changed.",
        lambda fields: link("queue", name=fields["queue"]), again=_rules_again,
    ),
    "set-setting": Action(
        OPERATOR, _set_setting, "The setting applies from now on, to all processes.",
        _to_settings, again=_settings_again,
    ),
    "unset-setting": Action(
        OPERATOR, operation_of("unset_setting", "name"), "The default applies again.", _to_settings,
    ),
}  # fmt: skip
