"""The whole script of each site, size, launcher and environment is the golden one, and does what it says when executed.

`pytest --update-golden` writes the files anew, prints the difference and fails once, so that it is read.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.model.words import Word
from muster.render.script import RULE, job_script
from muster.runner import run
from plugins.wide import sampled

from .golden_scripts import GOLDEN, VENV, Case, cases, kept_of, plan_of, script_of, tails, write
from .profiles import FILLED, SITES

SCRIPTS = {case: script_of(case) for case in cases()}
MADE = tuple(case for case in SCRIPTS if not isinstance(plan_of(case), MusterError))

each_script = pytest.mark.parametrize("case", SCRIPTS, ids=str)


@pytest.fixture(scope="session", autouse=True)
def kept(request: pytest.FixtureRequest) -> dict[Case, str]:
    """The scripts as they were kept when the session began; written anew where that was asked for."""
    before = {case: kept_of(case) for case in SCRIPTS}
    if request.config.getoption("--update-golden") and before != SCRIPTS:
        write(SCRIPTS)
    return before


def _last(word: Word) -> str:
    """Return the word; of a choice between modules, the last."""
    return str(word).rpartition("|")[2]


@each_script
def test_the_script_is_the_golden_one(case: Case, kept: dict[Case, str]) -> None:
    made, before = SCRIPTS[case], kept[case]
    difference = "".join(difflib.unified_diff(before.splitlines(True), made.splitlines(True), "golden", "made"))

    assert made == before, f"{difference}\nhint: pytest --update-golden, then read the difference"


@pytest.mark.parametrize("case", MADE, ids=str)
def test_no_line_of_the_job_is_wider_than_a_page(case: Case) -> None:
    job = SCRIPTS[case].partition(RULE)[0]

    assert [line for line in job.splitlines() if len(line) > 120] == []


def test_no_golden_file_is_left_over() -> None:
    wanted = {case.file for case in SCRIPTS} | {GOLDEN / "shared" / name for name in tails(SCRIPTS)}

    assert set(GOLDEN.rglob("*.sh")) == wanted


def test_every_site_has_each_size_with_and_without_a_container() -> None:
    for site in SITES:
        made = [case for case in MADE if case.site == site]
        assert {case.size for case in made} >= {"one-node", "four-nodes"}, site
        assert "venv" in {case.mode for case in made}
    assert {case.mode for case in MADE if case.site in FILLED} == {"venv", "container"}
    assert len(MADE) >= 150


def _stubs(folder: Path) -> None:
    """Launchers that write down what they were given; modules, the site's commands and Slurm's answers."""
    record = 'printf "%s\\0" "${0##*/}" "$@" >>"$RECORD"\n'
    once = f'case " $* " in *" ip -o "*) echo "2: ib0 inet 10.0.0.1/16"; exit ;; esac\n{record}'
    tools = {
        "srun": once,
        "mpirun": '[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\n' + record,
        "ibrun": record,
        "module": 'printf "%s\\n" "$*" >>"$RECORD.modules"\n',
        "scontrol": "printf 'node1\\nnode2\\nnode3\\nnode4\\n'\n",
        "getent": "echo '10.0.0.1 STREAM node1'\n",
    }
    for name, text in tools.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)


def _executed(case: Case, folder: Path) -> tuple[int, list[str], list[str], str]:
    """Run the script as sbatch would, with stub tools: (status, the launcher's words, modules, stderr)."""
    made = plan_of(case)
    assert not isinstance(made, MusterError)
    _stubs(folder)
    home = folder / "home"
    (home / "project").mkdir(parents=True)
    (home / "env" / "bin").mkdir(parents=True)
    (home / "env" / "bin" / "activate").write_text("ACTIVE=yes\n")
    # What stands in for the site's own files: the paths of the fixture's user lie in this folder.
    text = job_script(made).replace("/home/ada", str(home))
    (folder / "job.sh").write_text(text)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RECORD": str(folder / "record"),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NUM_NODES": str(made.shape.nodes),
        "SLURM_JOB_NODELIST": "node[1-4]" if made.shape.nodes > 1 else "node1",
        "SLURM_NTASKS_PER_NODE": str(made.shape.ntasks_per_node),
        "SLURM_CPUS_PER_TASK": str(made.shape.cpus_per_task or 1),
        "SLURM_SUBMIT_DIR": str(folder),
    }
    done = run(["bash", str(folder / "job.sh")], env=environment, cwd=folder)
    record = folder / "record"
    words = record.read_bytes().decode().split("\0")[:-1] if record.exists() else []
    modules = folder / "record.modules"
    return done.status, words, modules.read_text().splitlines() if modules.exists() else [], done.stderr


def _expected(case: Case) -> Iterator[str]:
    """The words that have to reach the launcher, from the request and the golden header alone."""
    made = plan_of(case)
    assert not isinstance(made, MusterError)
    header = dict(
        option.split("=", 1)
        for line in re.findall(r"^#SBATCH --(.*)$", SCRIPTS[case], re.MULTILINE)
        for option in line.split(" --")
        if "=" in option
    )
    nodes, per_node = int(header["nodes"]), int(header["ntasks-per-node"])
    agents = "torchrun" in case.launcher
    count = nodes if agents else nodes * per_node
    if case.launcher in {"srun", "torchrun"}:
        yield from (f"--nodes={nodes}", f"--ntasks={count}")
        if "cpus-per-task" in header:
            yield f"--cpus-per-task={int(header['cpus-per-task']) * (per_node if agents else 1)}"
        yield from re.findall(r"--cpu-bind=mask_cpu:[0-9a-fx,]+", SCRIPTS[case].replace("\\\n", ""))
    else:
        yield from ("-np", str(count))


def _is_of_four_nodes(case: Case) -> bool:
    """Every site, launcher and mode in one size, and one GPU of each site."""
    return case.size == "four-nodes" or (case.size, case.launcher, case.mode) == ("one-gpu", "srun", "venv")


@pytest.mark.parametrize("case", sampled(MADE, keep=10, test=_is_of_four_nodes), ids=str)
def test_executed_with_stub_tools_it_starts_what_was_asked_for(case: Case, tmp_path: Path) -> None:
    made = plan_of(case)
    assert not isinstance(made, MusterError)

    status, words, modules, stderr = _executed(case, tmp_path)

    assert status == 0, stderr
    assert words[0] == case.launcher.partition("+")[0].replace("torchrun", "srun")
    missing = [word for word in _expected(case) if word not in words]
    assert not missing, words
    assert words[-1] == "train.py"
    assert words.count("train.py") == 1
    # The stub has none of them: then the last of a list is asked for.
    loads = [" ".join(map(_last, each.shown[1:])) for each in made.prelude if str(each.shown[0]) == "module"]
    modules = [line for line in modules if not line.startswith("--terse avail")]
    assert modules == loads
    if case.mode == "container" and made.image.program:
        engine = words[words.index(made.image.program) :]
        image = str(made.image.image).removeprefix("docker://")
        named = next(index for index, word in enumerate(engine) if word.removeprefix("--image=docker:").endswith(image))
        assert not made.image.verb or engine.index(made.image.verb) < named
        assert named < engine.index("train.py")


def test_the_environment_is_made_before_the_ranks_start() -> None:
    for case in MADE:
        if case.mode == "venv":
            text = SCRIPTS[case]
            start = "_step " if "_step " in text else f"{case.launcher.partition('+')[0]} "
            assert text.index(f". {VENV}/bin/activate") < text.index(start)


@each_script
def test_the_job_is_read_on_one_screen(case: Case) -> None:
    job, _, _ = SCRIPTS[case].partition("# -----")
    lines = job.splitlines()
    assert len(lines) <= 40, "; ".join(lines[20:])
