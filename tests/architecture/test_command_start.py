"""Guards how little the command loads before it answers: a login node's file system is slow and shared.

Counts, not seconds; the seconds are in benchmarks/startup.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from muster import __version__
from muster.cli.verbs import VERBS

MUSTER = Path(sys.executable).with_name("muster")
MOST_FILE_OPENS = 50  # beyond those of an empty program: another build of Python searches its libraries elsewhere
TOP_LEVEL = (("--help",), ("--version",))
NEVER = {"torch", "numpy", "mpi4py", "importlib.metadata", "asyncio", "msgspec", "rich", "subprocess"}
HEAVY = NEVER - {"msgspec"}  # the options are declared with it
NOT_TO_START = {
    "asyncio",
    "dataclasses",
    "difflib",
    "hashlib",
    "json",
    "subprocess",
    "tempfile",
    "textwrap",
    "tomllib",
    "inspect",
    "pathlib",
    "socket",
    "torch",
    "numpy",
    "rich",
    "muster_lab",
    "muster.act.keep",
    "muster.look.controller",
}
MOST_OF_MUSTER = 105  # a module that a launch here does without is imported where it is used
THERE = [verb for verb in VERBS if find_spec(verb.module)]


def modules_loaded(*words: str) -> set[str]:
    """Every module that the command imports; the interpreter itself tells."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(MUSTER), *words], capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("words", TOP_LEVEL, ids=" ".join)
def test_the_first_page_loads_next_to_nothing(words: tuple[str, ...]) -> None:
    loaded = modules_loaded(*words)
    assert "muster.cli.app" in loaded
    assert loaded & NEVER == set()


# One interpreter that has loaded nothing of Muster, and a fork for each page.
_EACH_PAGE = """
import os, sys
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        from muster.cli.app import main
        main([name, "--help"])
        os.write(2, " ".join([name, *sys.modules, chr(10)]).encode())
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_verbs_page_loads_nothing_of_what_the_verb_does() -> None:
    names = [verb.name for verb in THERE]
    done = subprocess.run([sys.executable, "-c", _EACH_PAGE, *names], capture_output=True, text=True, check=True)
    loaded = {line.split()[0]: set(line.split()[1:]) for line in done.stderr.splitlines()}
    assert set(loaded) == set(names)
    assert all("muster.cli.app" in modules for modules in loaded.values())
    assert {name: sorted(modules & HEAVY) for name, modules in loaded.items() if modules & HEAVY} == {}


def test_a_launch_on_this_machine_loads_only_what_it_uses(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    loaded = modules_loaded("run", "--here", "--", sys.executable, str(script))
    assert "muster.act.launch_here" in loaded
    assert loaded & NOT_TO_START == set()
    assert len({name for name in loaded if name.partition(".")[0] == "muster"}) <= MOST_OF_MUSTER


@pytest.mark.parametrize("words", TOP_LEVEL, ids=" ".join)
def test_the_first_page_opens_few_files(words: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    empty = tmp_path / "empty.py"
    empty.touch()
    more = files_opened(tmp_path, str(MUSTER), *words) - files_opened(tmp_path, sys.executable, str(empty))
    # `muster --help` names the verbs of all packages: what it reads for them grows with what is installed.
    more = Counter({path: count for path, count in more.items() if ".dist-info/" not in path})
    assert any("/muster/cli/" in path for path in more)
    assert sum(more.values()) <= MOST_FILE_OPENS, sorted(more.elements())


def files_opened(folder: Path, *argv: str) -> Counter[str]:
    """Every file that a program tries to open, and how often."""
    trace = folder / "trace"
    subprocess.run(
        ["strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(trace), *argv],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return Counter(re.findall(r'open(?:at2?)?\([^"]*"([^"]*)"', trace.read_text()))


def test_the_command_and_the_module_are_one_program() -> None:
    spoken = [
        subprocess.run([*program, "--version"], capture_output=True, text=True, check=True).stdout
        for program in ([str(MUSTER)], [sys.executable, "-m", "muster"])
    ]
    assert spoken == [f"muster {__version__}\n"] * 2


def test_every_verb_of_the_first_page_is_there_once() -> None:
    assert len({verb.name for verb in VERBS}) == len(VERBS)
    assert [verb.name for verb in VERBS if verb not in THERE] == []
