"""The shell examples in docs/service.md are executed, one after the other, in one shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from leasehold.cli.serve import serve
from service.conftest import Service

PAGE = (Path(__file__).parent.parent.parent / "docs/service.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_examples_work(service: Service) -> None:
    assert len(EXAMPLES) == 4
    secret = service.token("admin")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(EXAMPLES)],
        env={**os.environ, "URL": f"{service.url}/api/v1", "TOKEN": secret, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done
    assert '"result":{"sent":true}' in done.stdout
    assert service.store.stats().completed == 1


@pytest.mark.parametrize("page", ["service.md", "deploying.md", "blobs.md"])
def test_every_option_of_serve_exists(page: str) -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / page).read_text(encoding="utf-8")
    shown = re.findall(r"\bserve\b((?: \\\n|[^\n`])*)", text)
    known = {option for each in serve.params for option in each.opts} | {"--store"}
    told = {option for line in shown for option in re.findall(r"--[a-z-]+", line)}
    assert told
    assert told <= known
