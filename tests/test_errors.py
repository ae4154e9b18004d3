"""The tree of errors in the docstring is the tree there is; errors come back from documents."""

from __future__ import annotations

import inspect
import re
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold import errors
from leasehold.core.model.error_documents import error_document, error_from
from leasehold.error_codes import CLASSES, CodedError

LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+Error)\b", re.MULTILINE)
PAGE: Final = Path(__file__).parent.parent / "docs/errors.md"
SECONDS: Final = st.none() | st.floats(min_value=0, allow_infinity=False)
FIELDS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "retry_after_seconds": SECONDS,
    "queue": st.none() | st.text(),
    "error_type": st.text(),
    "traceback": st.none() | st.text(),
    "holder_pid": st.none() | st.integers(min_value=1, max_value=2**31),
    "is_holder_stopped": st.booleans(),
    "is_transient": st.booleans(),
    "limit": st.none() | st.integers(min_value=1),
    "remaining": st.none() | st.integers(min_value=0),
    "reset_at": st.none() | st.datetimes(timezones=st.just(UTC)),
}
PINNED: Final = {
    "leasehold": "LeaseholdError",
    "invalid_job": "InvalidJobError",
    "payload": "PayloadError",
    "payload_too_large": "PayloadTooLargeError",
    "task_not_importable": "TaskNotImportableError",
    "invalid_schedule": "InvalidScheduleError",
    "schedule_not_found": "ScheduleNotFoundError",
    "cycle": "CycleError",
    "invalid_retention": "InvalidRetentionError",
    "invalid_setting": "InvalidSettingError",
    "duplicate_job": "DuplicateJobError",
    "idempotency_conflict": "IdempotencyConflictError",
    "job_not_found": "JobNotFoundError",
    "unknown_dependency": "UnknownDependencyError",
    "invalid_transition": "InvalidTransitionError",
    "lease_lost": "LeaseLostError",
    "lease_conflict": "LeaseConflictError",
    "lease_expired": "LeaseExpiredError",
    "queue_full": "QueueFullError",
    "rate_limited": "RateLimitedError",
    "queue_closed": "QueueClosedError",
    "invalid_queue": "InvalidQueueError",
    "queue_exists": "QueueExistsError",
    "queue_not_found": "QueueNotFoundError",
    "queue_not_empty": "QueueNotEmptyError",
    "invalid_window": "InvalidWindowError",
    "invalid_filter": "InvalidFilterError",
    "invalid_page": "InvalidPageError",
    "invalid_cursor": "InvalidCursorError",
    "invalid_order": "InvalidOrderError",
    "invalid_request": "InvalidRequestError",
    "invalid_field": "InvalidFieldError",
    "unknown_field": "UnknownFieldError",
    "request_too_large": "RequestTooLargeError",
    "unauthenticated": "UnauthenticatedError",
    "forbidden": "ForbiddenError",
    "invalid_token": "InvalidTokenError",
    "token_exists": "TokenExistsError",
    "backup_exists": "BackupExistsError",
    "token_not_found": "TokenNotFoundError",
    "operation_not_found": "OperationNotFoundError",
    "worker_not_found": "WorkerNotFoundError",
    "invalid_pin": "InvalidPinError",
    "unknown_task": "UnknownTaskError",
    "job_failed": "JobFailedError",
    "job_cancelled": "JobCancelledError",
    "job_timeout": "JobTimeoutError",
    "result_expired": "ResultExpiredError",
    "result_timeout": "ResultTimeoutError",
    "unsupported": "UnsupportedError",
    "transaction": "TransactionError",
    "store": "StoreError",
    "store_unavailable": "StoreUnavailableError",
    "store_busy": "StoreBusyError",
    "store_full": "StoreFullError",
    "store_corrupt": "StoreCorruptError",
    "store_lost": "StoreLostError",
    "store_moved": "StoreMovedError",
    "store_version": "StoreVersionError",
    "store_closed": "StoreClosedError",
    "permanent": "PermanentError",
    "retryable": "RetryableError",
    "blob": "BlobError",
    "blob_lost": "BlobLostError",
    "blob_damaged": "BlobDamagedError",
    "blob_unavailable": "BlobUnavailableError",
}


def test_the_tree_that_is_drawn_is_the_tree_there_is() -> None:
    assert errors.__doc__ is not None
    drawn: dict[str, str | None] = {}
    above: list[str] = []
    for found in LINE.finditer(errors.__doc__):
        depth = len(found["branch"]) // 4
        assert found["name"] not in drawn, f"{found['name']} is drawn twice"
        drawn[found["name"]] = above[depth - 1] if depth else None
        above[depth:] = [found["name"]]
    there = {
        name: next((base.__name__ for base in kind.__bases__ if base in ours(kind)), None)
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.LeaseholdError)
    }
    assert drawn == there


def ours(kind: type) -> set[type]:
    return {each for each in kind.__mro__ if issubclass(each, errors.LeaseholdError)}


def test_every_error_has_a_code_of_its_own() -> None:
    with_codes = {kind: code for code, kind in CLASSES.items()}
    assert set(with_codes) == set(coded_classes())
    assert all(kind.code == code for kind, code in with_codes.items())


def test_no_code_is_given_twice() -> None:
    with pytest.raises(AssertionError, match="job_not_found"):

        class Another(errors.LeaseholdError, code="job_not_found"):
            pass


def test_codes_stay_the_same() -> None:
    """Other languages go by them: a line here changes only together with the major version."""
    assert {code: kind.__name__ for code, kind in CLASSES.items()} == PINNED


def test_the_page_of_codes_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE)
    listed = {code: (name, tuple(re.findall(r"\w+", fields))) for code, name, fields in rows}
    assert listed == {code: (kind.__name__, kind.fields) for code, kind in CLASSES.items()}


@pytest.mark.parametrize("kind", CLASSES.values())
@given(message=st.text(), values=st.data())
def test_errors_come_back_as_the_same_class_with_the_same_fields(
    kind: type[CodedError], message: str, values: st.DataObject
) -> None:
    fields = {name: values.draw(FIELDS[name], label=name) for name in kind.fields}
    sent = msgspec.json.encode(error_document(kind(message, **fields)))
    back = error_from(msgspec.json.decode(sent))
    assert type(back) is kind
    assert str(back) == message
    assert {name: getattr(back, name) for name in kind.fields} == fields


def test_what_an_error_takes_beside_its_message_is_a_field_of_it() -> None:
    for kind in coded_classes():
        # One without fields is made as any Exception is, which has no signature to look at.
        written = inspect.isfunction(kind.__init__)
        parameters = set(inspect.signature(kind).parameters) - {"message"} if written else set()
        assert parameters == set(kind.fields), kind


def test_an_unknown_code_is_kept() -> None:
    sent = {"code": "moon_phase", "message": "not tonight", "fields": {"phase": 3}}
    back = error_from(sent)
    assert type(back) is errors.LeaseholdError
    assert (back.code, str(back)) == ("moon_phase", "not tonight")
    assert error_document(back) == {**sent, "fields": {}}
    assert errors.LeaseholdError.code == "leasehold"


def test_fields_of_another_version_are_left_out_or_have_their_default() -> None:
    sent = {"code": "queue_full", "message": "full", "fields": {"queue": "mail", "shelf": 3}}
    back = error_from(sent)
    assert isinstance(back, errors.QueueFullError)
    assert (back.queue, back.retry_after_seconds) == ("mail", None)


def test_a_class_without_a_code_comes_back_as_the_one_it_extends() -> None:
    class Ambiguous(errors.JobNotFoundError):
        pass

    assert type(error_from(error_document(Ambiguous("two of them")))) is errors.JobNotFoundError


def coded_classes() -> list[type[CodedError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, CodedError) and kind is not CodedError
    ]
