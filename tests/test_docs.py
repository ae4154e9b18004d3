"""The documentation is executed, its links resolve, and what it names exists.

In a page, a python block whose first line is `# name.py` is a file, and is written as one; a block
with `>>>` is a doctest; any other python block is run. The blocks of one page run in order, in one
namespace, in a folder of their own.
"""

from __future__ import annotations

import doctest
import importlib
import logging
import re
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from leasehold import AsyncTaskQueue, TaskQueue

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
GUARANTEES = ROOT / "GUARANTEES.md"
SECURITY = ROOT / "docs" / "security.md"
PAGES = [README, GUARANTEES, *sorted((ROOT / "docs").glob("*.md"))]
ALL_TEXTS = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"))]
WAIT = 240  # seconds; below the limit that pytest has for one test
PROMISED = [
    *(f"S{number}" for number in range(1, 17)),
    *("B1", "B2", "B3", "C1", "C2", "M1", "L1", "L2", "L3"),
]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PUBLIC_NAME = re.compile(r"(?<![\w/.-])leasehold(?!\.(?:db|proto|v1)\b)(?:\.\w+)+")
TEST_FILE = re.compile(r"(?:tests|src|benchmarks)/[\w/]+\.py")
TEST_NAME = re.compile(r"\btest_\w+\b(?!\.py)")
DEFINED = re.compile(r"def (test_\w+)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    kind: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        found = FILE_NAME.match(self.text)
        return found[1] if found and self.kind == "python" else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def page_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """The namespace of one page: a module that can be imported, like the reader's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = types.ModuleType("app")
    monkeypatch.setitem(sys.modules, "app", module)
    # Jobs that fail on purpose are no news here.
    logger = logging.getLogger("leasehold")
    level = logger.level
    monkeypatch.setattr(logger, "disabled", True)
    yield module
    logger.setLevel(level)
    for value in vars(module).values():
        queue = value.queue if isinstance(value, AsyncTaskQueue) else value
        if isinstance(queue, TaskQueue):
            queue.shutdown()
    for name, loaded in list(sys.modules.items()):
        if str(getattr(loaded, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def run(block: Block, page: Path, module: types.ModuleType) -> None:
    # Padded, so that a traceback names the line of the page; and without this file's own futures.
    text = "\n" * block.line + block.text
    exec(compile(text, str(page), "exec", dont_inherit=True), vars(module))


def run_doctest(block: Block, page: Path, module: types.ModuleType) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, vars(module), name_of(page), str(page), block.line
    )
    test.globs = vars(module)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append, clear_globs=False)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_example_runs(page: Path, tmp_path: Path, page_module: types.ModuleType) -> None:
    for block in blocks(page):
        if block.kind != "python":
            continue
        if block.file_name is not None:
            compile(block.text, block.file_name, "exec")
            write_files([block], tmp_path)
        elif ">>> " in block.text:
            run_doctest(block, page, page_module)
        else:
            run(block, page, page_module)


def write_files(found: list[Block], folder: Path) -> dict[str, Block]:
    """Write the blocks that are files; answers with them by name."""
    files = {block.file_name: block for block in found if block.file_name is not None}
    for name, block in files.items():
        (folder / name).write_text(block.text, encoding="utf-8")
    return files


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def test_the_readmes_example_says_what_it_prints(
    capsys: pytest.CaptureFixture[str], page_module: types.ModuleType
) -> None:
    [example] = [block for block in blocks(README) if "# sent" in block.text]
    run(example, README, page_module)
    assert capsys.readouterr().out == "sent 'hello' to ada@example.com\n"


def test_getting_started_works_with_a_worker_process(tmp_path: Path) -> None:
    page = blocks(ROOT / "docs" / "getting-started.md")
    files = write_files(page, tmp_path)
    assert set(files) == {"tasks.py", "worker.py", "web.py"}
    worker = subprocess.Popen([sys.executable, "worker.py"], cwd=tmp_path)
    try:
        web = run_python("web.py", cwd=tmp_path)
        after_web = page[page.index(files["web.py"]) + 1 :]
        promised = next(block.text for block in after_web if block.kind == "text")
        assert (web.stdout, web.stderr) == (promised, "")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(WAIT) == 0
    finally:
        worker.kill()
        worker.wait()


def test_the_suites_for_store_authors_run_as_shown(tmp_path: Path) -> None:
    files = write_files(blocks(ROOT / "docs" / "testing.md"), tmp_path)
    assert set(files) == {"conftest.py", "test_my_store.py"}
    # A part of the clauses is enough: tests/stores/test_memory.py runs them all on this store.
    chosen = ("-k", "submitting or leasing or lea_ or sub_")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.parametrize("page", ALL_TEXTS, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name_of(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", ALL_TEXTS, ids=name_of)
def test_every_name_of_ours_exists(page: Path) -> None:
    for dotted in PUBLIC_NAME.findall(page.read_text(encoding="utf-8")):
        assert exists(dotted), f"{name_of(page)} names {dotted}"


def exists(dotted: str) -> bool:
    value: object = importlib.import_module("leasehold")
    path = "leasehold"
    for part in dotted.split(".")[1:]:
        path = f"{path}.{part}"
        if hasattr(value, part):
            value = getattr(value, part)
            continue
        try:
            value = importlib.import_module(path)
        except ImportError:
            return False
    return True


@pytest.mark.parametrize("page", ALL_TEXTS, ids=name_of)
def test_every_source_file_named_exists(page: Path) -> None:
    for path in TEST_FILE.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / path).is_file(), f"{name_of(page)} names {path}"


@pytest.mark.parametrize("page", [GUARANTEES, SECURITY], ids=lambda page: page.name)
def test_what_is_promised_names_tests_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(TEST_NAME.findall(text))
    places = [ROOT / "tests", ROOT / "src" / "leasehold" / "testing"]
    sources = [path for place in places for path in place.rglob("*.py")]
    defined = {name for path in sources for name in DEFINED.findall(path.read_text("utf-8"))}
    assert named, "guarantees without tests are only words"
    assert named <= defined, sorted(named - defined)


@pytest.mark.parametrize("number", PROMISED)
def test_every_guarantee_has_a_row(number: str) -> None:
    assert f"\n| **{number}** |" in GUARANTEES.read_text(encoding="utf-8")


def test_every_page_is_on_the_map() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name
