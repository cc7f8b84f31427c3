"""The whole script of each site, size, launcher and environment: what it says, and what it does when executed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.errors import MusterError
from muster.model.plan import Plan
from muster.model.words import Word
from muster.render.script import RULE
from muster.runner import run
from plugins.wide import sampled

from .golden_scripts import VENV, Case, cases, made_of, plan_of, script_of
from .profiles import FILLED, SITES

each_site = pytest.mark.parametrize("site", SITES)


def _made(site: str) -> list[Case]:
    """Return the jobs of a site that it does not refuse."""
    return [case for case in cases() if case.site == site and isinstance(plan_of(case), Plan)]


def _last(word: Word) -> str:
    """Return the word; of a choice between modules, the last."""
    return str(word).rpartition("|")[2]


@each_site
def test_each_job_is_read_on_one_screen_and_no_line_is_wider_than_a_page(site: str) -> None:
    jobs = {case: script_of(case).partition(RULE)[0].splitlines() for case in _made(site)}

    # Each line that is not plain Slurm says why it is there: at the site with the most variables this takes 65 lines.
    assert [(str(case), len(lines)) for case, lines in jobs.items() if len(lines) > 65] == []
    assert [(str(case), line) for case, lines in jobs.items() for line in lines if len(line) > 120] == []


@each_site
def test_each_job_is_watched_and_its_watch_ends(site: str) -> None:
    """As every job that `muster submit` queues."""
    for case in _made(site):
        job, _, own_text = script_of(case).partition(RULE)
        begins = job.index("    muster_watch_silence seconds=1800 python=/opt/muster/bin/python ")
        assert begins < job.index("    muster_end_watch\n")
        assert own_text.count("\nmuster_watch_silence() {") == own_text.count("\nmuster_end_watch() {") == 1
        if made_of(case).shape.ntasks > 1 and case.launcher == "srun":
            assert "muster_task+=look.sh" in job, case


def test_every_site_has_each_size_with_and_without_a_container() -> None:
    made = {site: _made(site) for site in SITES}
    for site in SITES:
        assert {case.size for case in made[site]} >= {"one-node", "four-nodes"}, site
        assert "venv" in {case.mode for case in made[site]}
    assert {case.mode for site in FILLED for case in made[site]} == {"venv", "container"}
    assert sum(map(len, made.values())) >= 150


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
    made = made_of(case)
    _stubs(folder)
    home = folder / "home"
    (home / "project").mkdir(parents=True)
    (home / "env" / "bin").mkdir(parents=True)
    (home / "env" / "bin" / "activate").write_text("ACTIVE=yes\n")
    # What stands in for the site's own files: the paths of the fixture's user lie in this folder.
    (folder / "sourced").touch()
    text = re.sub(r"^(    \. )/(?!home/)\S+", rf"\1{folder}/sourced", script_of(case), flags=re.MULTILINE)
    text = text.replace("/home/ada", str(home))
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
    """The words that have to reach the launcher, from the request and the header alone."""
    header = dict(
        option.split("=", 1)
        for line in re.findall(r"^#SBATCH --(.*)$", script_of(case), re.MULTILINE)
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
        yield from re.findall(r"--cpu-bind=mask_cpu:[0-9a-fx,]+", script_of(case).replace("\\\n", ""))
    else:
        yield from ("-np", str(count))


def _is_of_four_nodes(case: Case) -> bool:
    """Every site, launcher and mode in one size, and one GPU of each site."""
    return case.size == "four-nodes" or (case.size, case.launcher, case.mode) == ("one-gpu", "srun", "venv")


@pytest.mark.parametrize("case", sampled(cases(), keep=60, test=_is_of_four_nodes), ids=str)
def test_executed_with_stub_tools_it_starts_what_was_asked_for(case: Case, tmp_path: Path) -> None:
    made = plan_of(case)
    if isinstance(made, MusterError):
        pytest.skip(f"by design: refused, {made.message}")

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


@each_site
def test_the_environment_is_made_before_the_ranks_start(site: str) -> None:
    for case in _made(site):
        if case.mode == "venv":
            text = script_of(case)
            start = "_step " if "_step " in text else f"{case.launcher.partition('+')[0]} "
            assert text.index(f". {VENV}/bin/activate") < text.index(start)
