"""`token`: secrets are shown once, and only their hashes are stored."""

from __future__ import annotations

from cli.conftest import Shell
from leasehold.cli.exits import Exit
from leasehold.cli.token import ROLE_NAMES
from leasehold.connect import connect
from leasehold.core.model.tokens import ROLES, digest_of


def test_the_roles_are_those_of_the_core() -> None:
    assert ROLE_NAMES == ROLES


def test_create_list_revoke(shell: Shell) -> None:
    made = shell.ok("token", "create", "ci", "--role", "producer", "-q", "mail", "--expires", "90d")
    secret = made.out.strip()
    assert len(secret) == 67
    assert "shown only now" in made.err
    store = connect(shell.folder / "leasehold.db")
    found = store.find_token(digest_of(secret))
    assert found is not None
    assert (found.name, found.roles, found.queues) == ("ci", ("producer",), ("mail",))
    assert found.expires_at is not None
    assert (found.expires_at - found.created_at).days == 90
    store.close()

    [listed] = shell.ok("token", "list", "-o", "json").json
    assert (listed["name"], listed["commands"]) == ("ci", False)
    assert "secret" not in listed
    table = shell.ok("token", "list").out.splitlines()
    assert table[0].split()[:3] == ["NAME", "ROLES", "QUEUES"]
    assert "producer" in table[2]

    assert shell.ok("token", "revoke", "ci").out == "token ci is revoked\n"
    assert "there are no tokens" in shell.ok("token", "list").err
    assert shell.run("token", "revoke", "ci").code == Exit.NOT_FOUND
    actions = [each["action"] for each in shell.ok("audit", "-o", "json").json]
    assert actions == ["revoke_token", "create_token"]


def test_the_secret_is_in_no_file(shell: Shell) -> None:
    made = shell.ok("token", "create", "ops", "--role", "admin", "-o", "json").json
    secret = made["secret"]
    for path in shell.folder.iterdir():
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
            assert secret[3:].encode() not in path.read_bytes()


def test_what_makes_no_sense_is_refused(shell: Shell) -> None:
    shell.ok("token", "create", "ci", "--role", "producer")
    assert shell.run("token", "create", "ci", "--role", "admin").code == Exit.CONFLICT
    assert shell.run("token", "create", "x").code == Exit.USAGE
    assert shell.run("token", "create", "x", "--role", "root").code == Exit.USAGE
    refused = shell.run("token", "create", "x", "--role", "admin", "--queue", "mail")
    assert refused.code == Exit.USAGE
    assert "an admin may do everything" in refused.err
