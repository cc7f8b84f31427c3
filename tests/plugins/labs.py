"""Labs for tests: one per kind and session, made when a test first asks for it, gone at the end.

`lab`               4 hosts × 8 CPUs × 4 GPUs, made by whoever runs the tests (root in CI)
`accounting_lab`    the same with accounts, QOS and limits
`ordinary_lab`      the same, made by an ordinary user
`either_lab`        each test twice: a lab made by root, and one made by an ordinary user
`new_lab`           a function that makes a lab for one test only
`shared_directory`  a folder that every host sees (their /tmp are their own) and every user may write
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

import pytest

from muster.runner import ProgramResult, checked, run
from plugins.forked import run_muster
from plugins.own_home import HOUSE
from plugins.patience import measure_srun, patient

ROOT = Path(__file__).resolve().parents[2]
MUSTER = str(Path(sys.executable).with_name("muster"))
ORDINARY_USER = str(ROOT / "tests/lab/ordinary_user.sh")
_NUMBERS = count()
_UNTIL_IT_ENDS = r"""
job=$(sbatch --parsable "$@") && echo "$job" || exit
while said=$(scontrol show job --oneliner "${job%%;*}") || exit; do
    case $said in
    *JobState=PENDING* | *JobState=CONFIGURING* | *JobState=RUNNING* | *JobState=COMPLETING*) sleep 0.2 ;;
    *) break ;;
    esac
done
status=${said##* ExitCode=} status=${status%% *}
[ "${status#*:}" -eq 0 ] || exit $((128 + ${status#*:}))
exit "${status%:*}"
"""


@dataclass(frozen=True)
class Person:
    """Who types `muster lab`: the user of the tests, or an ordinary one; with a state directory of their own."""

    home: Path
    ordinary: bool = False

    def argv(self, *words: str) -> list[str]:
        """`muster` with `words`, as this person."""
        return [*self.prefix(), MUSTER, *words]

    def prefix(self) -> list[str]:
        """What stands before a command of this person's."""
        if self.ordinary and os.geteuid() == 0:
            return [ORDINARY_USER, str(self.home), sys.base_prefix]
        return []

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of this person's commands."""
        own = {"XDG_STATE_HOME": str(self.home / ".local/state")}
        if self.ordinary and os.geteuid() == 0:
            own["XDG_CACHE_HOME"] = str(_ordinary_cache())
        return {**os.environ, **own, **(more or {})}

    def muster(self, *words: str, timeout_s: float = 120) -> ProgramResult:
        """Run `muster` with `words` to its end."""
        return run(self.argv(*words), env=self.environment(), timeout_s=patient(timeout_s))


def _ordinary_cache() -> Path:
    """Where the ordinary user keeps fetched versions of Slurm, over many runs of the tests."""
    folder = ROOT / ".cache" / "ordinary"
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, 20001, 20001)
    return folder


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    person: Person
    name: str
    hosts: tuple[str, ...] = field(default=("node1", "node2", "node3", "node4"))

    def argv(self, argv: Sequence[str], *, host: str | None = None, user: str | None = None) -> list[str]:
        """The words that run `argv` in the lab: for tests that start it themselves, on a terminal for example."""
        place = [*(["--host", host] if host else []), *(["--user", user] if user else [])]
        return self.person.argv("lab", "exec", "--name", self.name, *place, "--", *argv)

    def exec(
        self,
        argv: Sequence[str],
        *,
        host: str | None = None,
        user: str | None = None,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout_s: float = 120,
    ) -> ProgramResult:
        """Run `argv` in the lab to its end, on its login host or on `host`; never raises for its status."""
        environment = self.person.environment(env)
        words = self.argv(argv, host=host, user=user)
        # The lab's other users may be kept out of the checkout: it may lie in /root.
        place = cwd or ("/" if user else ROOT)
        if self.person.prefix():
            return run(words, env=environment, cwd=place, stdin=stdin, timeout_s=patient(timeout_s))
        return run_muster(words[1:], env=environment, cwd=place, stdin=stdin, timeout_s=patient(timeout_s))

    def batch(self, *words: str, stdin: str | None = None, cwd: Path, timeout_s: float = 120) -> ProgramResult:
        """Queue a job by `sbatch` with these words, and wait for its end: its number, and its status.

        `sbatch --wait` looks 2, 6, 12, 20, 30 and 42 seconds after it has queued the job, and no sooner.
        """
        return self.exec(["sh", "-c", _UNTIL_IT_ENDS, "sh", *words], stdin=stdin, cwd=cwd, timeout_s=timeout_s)

    def muster(self, verb: str, *words: str, timeout_s: float = 120) -> ProgramResult:
        """`muster lab VERB --name …`, outside the lab."""
        return self.person.muster("lab", verb, "--name", self.name, *words, timeout_s=timeout_s)


@contextmanager
def lab_up(person: Person, name: str, *words: str) -> Iterator[Lab]:
    """A lab with the options `words`, for as long as the block runs."""
    result = person.muster("lab", "up", "--name", name, *words)
    if re.search("this machine (lacks|forbids)|subordinate ids", result.stderr):
        pytest.skip(result.stderr.partition("\n")[0])
    checked(result)
    lab = Lab(person, name)
    try:
        yield lab
    finally:
        lab.muster("down")


def person_at(home: Path, *, ordinary: bool) -> Person:
    """A person whose home is made here."""
    home.mkdir(parents=True)
    home.chmod(0o755)
    return Person(home, ordinary)


def pytest_configure() -> None:
    """A run that is told to end takes its labs with it."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("told to end", returncode=128 + signal.SIGTERM))


@pytest.fixture(scope="session")
def scratch() -> Path:
    """A folder of this session that every host of a lab sees and every user may enter."""
    return HOUSE


@pytest.fixture(scope="session")
def tester(scratch: Path) -> Person:
    """Whoever runs the tests."""
    return person_at(scratch / "tester", ordinary=os.geteuid() != 0)


@pytest.fixture(scope="session")
def ordinary_person(scratch: Path) -> Person:
    """An ordinary user, also where root runs the tests."""
    return person_at(scratch / "ordinary", ordinary=True)


@pytest.fixture(scope="session")
def lab(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """4 hosts × 8 CPUs × 4 GPUs, shared by all tests: leave it as it was."""
    with lab_up(tester, "shared", "--slurm", slurm_version) as made:
        measure_srun(lambda: made.exec(["srun", "-N1", "true"]))
        yield made


@pytest.fixture(scope="session")
def accounting_lab(tester: Person, slurm_version: str) -> Iterator[Lab]:
    """The same with slurmdbd: account `lab` for alice, bob and root; limits are enforced."""
    with lab_up(tester, "accounting", "--accounting", "--slurm", slurm_version) as made:
        yield made


@pytest.fixture(scope="session", params=["root", "ordinary"])
def either_lab(request: pytest.FixtureRequest, slurm_version: str) -> Iterator[Lab]:
    """A test that takes it runs twice: in root's lab, and in an ordinary user's."""
    if request.param == "root":
        if os.geteuid() != 0:
            pytest.skip("by design: only root can make root's lab")
        yield request.getfixturevalue("lab")
    else:
        yield request.getfixturevalue("ordinary_lab")


@pytest.fixture(scope="session")
def ordinary_lab(ordinary_person: Person, slurm_version: str) -> Iterator[Lab]:
    """The same as `lab`, made by an ordinary user."""
    with lab_up(ordinary_person, "ordinary", "--slurm", slurm_version) as made:
        yield made


@pytest.fixture
def new_lab(tester: Person, request: pytest.FixtureRequest) -> Callable[..., Lab]:
    """Make a lab for this test alone: new_lab("-N", "2", "--gpu-type", "a100"), or new_lab(…, person=…)."""
    made: list[Lab] = []

    def make(*words: str, person: Person = tester) -> Lab:
        # Each lab is another cluster: what a job tells of its nodes is remembered by the cluster's name.
        name = f"test-{next(_NUMBERS)}"
        context = lab_up(person, name, *words)
        made.append(context.__enter__())
        request.addfinalizer(lambda: context.__exit__(None, None, None))
        return made[-1]

    return make


@pytest.fixture
def shared_directory(scratch: Path) -> Path:
    """A fresh folder that all hosts see and every user of a lab may write."""
    folder = Path(mkdtemp(dir=scratch))
    folder.chmod(0o1777)
    return folder
