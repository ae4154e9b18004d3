"""`leasehold serve` as a real process: banner, signals, TLS, and what it refuses."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.conftest import Shell
from leasehold.cli.exits import Exit
from support.nursery import Nursery

WAIT = 60


@pytest.fixture
def shell(tmp_path: Path, commands: Nursery) -> Shell:
    return Shell(tmp_path, commands)


@contextmanager
def served(shell: Shell, *arguments: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """The banner of a running server, and its process."""
    process = subprocess.Popen(
        shell.command("serve", "--port", "0", "-o", "json", *arguments),
        cwd=shell.folder,
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = ""
        while not lines.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            lines += line
        yield json.loads(lines), process
    finally:
        process.kill()
        process.communicate()


def test_it_serves_and_stops_in_order(shell: Shell) -> None:
    secret = shell.ok("token", "create", "ci", "--role", "producer").out.strip()
    with served(shell) as (banner, process):
        assert banner["address"].startswith("http://127.0.0.1:")
        store = str(shell.folder / "leasehold.db")
        assert (banner["store"], banner["pid"]) == (store, process.pid)
        with httpx.Client(base_url=banner["address"], trust_env=False, timeout=WAIT) as client:
            assert client.get("/readyz").status_code == 200
            sent = client.post(
                "/api/v1/jobs",
                json={"task": "mail"},
                headers={"Authorization": f"Bearer {secret}"},
            )
            assert sent.status_code == 201
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=WAIT)
        assert (process.returncode, told) == (0, "")
    # The store was closed in order: nothing is left for the next one to put right.
    assert not (shell.folder / "leasehold.db-wal").exists()
    [job] = shell.ok("list", "-o", "json").json
    assert job["task"] == "mail"


def test_insecure_is_for_this_machine_only(shell: Shell) -> None:
    refused = shell.run("serve", "--insecure", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == Exit.USAGE
    assert "--insecure gives access to everybody" in refused.err
    with served(shell, "--insecure") as (banner, _):
        answer = httpx.get(f"{banner['address']}/api/v1/jobs", trust_env=False, timeout=WAIT)
        assert answer.json() == {"jobs": [], "next_cursor": None, "total": None}


def test_tls_on_both_faces(shell: Shell) -> None:
    certificate, key = make_certificate(shell.folder)
    tls = ("--tls-cert", certificate, "--tls-key", key)
    with served(shell, "--insecure", *tls, "--grpc", "127.0.0.1:0") as (banner, _):
        assert banner["grpc_address"].startswith("grpcs://127.0.0.1:")
        far = f"{banner['grpc_address']}?ca={certificate}"
        assert shell.ok("list", "-o", "json", "--store", far).json == []
        assert banner["address"].startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=certificate)
        with httpx.Client(verify=trusting, trust_env=False, timeout=WAIT) as client:
            assert client.get(f"{banner['address']}/healthz").status_code == 200
    assert shell.run("serve", "--tls-key", key).code == Exit.USAGE
    refused = shell.run("serve", "--tls-cert", certificate)
    assert (refused.code, "does not have its key (--tls-key)" in refused.err) == (Exit.USAGE, True)


def test_only_clients_with_a_certificate(shell: Shell) -> None:
    certificate, key = make_certificate(shell.folder)
    tls = ("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", certificate)
    with served(shell, "--insecure", *tls, "--grpc", "127.0.0.1:0") as (banner, process):
        for name in ("address", "grpc_address"):
            bare = f"{banner[name]}?ca={certificate}&retry_seconds=0"
            refused = shell.run("list", "--store", bare)
            assert refused.code != 0
            assert "cert=FILE&key=FILE" in refused.err
            shown = f"{bare}&cert={certificate}&key={key}"
            assert shell.ok("list", "-o", "json", "--store", shown).json == []
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read() == "", "a client that is turned away is no matter for the log"


def test_a_port_that_is_taken(shell: Shell) -> None:
    with served(shell, "--insecure") as (banner, _):
        port = banner["address"].rpartition(":")[2]
        refused = shell.run("serve", "--port", port)
        assert refused.code != Exit.OK
        assert "cannot listen on 127.0.0.1" in refused.err
        refused = shell.run("serve", "--port", "0", "--grpc", f"127.0.0.1:{port}")
        assert refused.code != Exit.OK
        assert f"cannot serve gRPC on 127.0.0.1:{port}" in refused.err
    assert shell.run("serve", "--grpc", "8701").code == Exit.USAGE
    assert shell.run("serve", "--insecure", "--grpc", "0.0.0.0:0").code == Exit.USAGE


def make_certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that vouches for itself."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "leasehold test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(paths[0]), str(paths[1])
