"""What PostgreSQL says when nobody gets in: a server that only starts, or a wrong URL."""

from __future__ import annotations

import pytest

from leasehold.errors import StoreUnavailableError
from support.servers import needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402 - only where it is installed

from leasehold.stores.postgres.server.address import parse  # noqa: E402
from leasehold.stores.postgres.server.failures import translate  # noqa: E402

SERVER = 'connection failed: connection to server at "db", port 5432 failed: '


@pytest.mark.parametrize(
    ("told", "is_transient"),
    [
        ("Connection refused\n\tIs the server running on that host?", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ('FATAL:  password authentication failed for user "app"', False),
        ("fe_sendauth: no password supplied", False),
        ('FATAL:  database "jobs" does not exist', False),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "app"', False),
        ('FATAL:  permission denied for database "jobs"', False),
    ],
)
def test_only_what_may_pass_is_waited_for(told: str, is_transient: bool) -> None:
    error = translate(psycopg.OperationalError(SERVER + told), parse("postgresql://db/jobs"))
    assert isinstance(error, StoreUnavailableError)
    assert error.is_transient is is_transient
