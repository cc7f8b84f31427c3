"""What the conformance suite runs: each launcher of the registry × each engine, as scripts with stub programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import MusterError
from muster.facts import ImageFacts
from muster.images import engine_named, engine_names
from muster.launchers import launcher_named, launcher_names
from muster.launchers.base import Starter
from muster.model.plan import Engine, Plan
from muster.render.script import job_script
from muster.runner import ProgramResult, run

from .conftest import EXTRA

__all__ = ["CASES", "Case", "Ran", "execute", "plan_of"]

HERE = Path(__file__).parent
# An image of each kind, as a user names it.
_IMAGES = {
    "registry": "docker://quay.io/ada/torch:2",
    "edf": "torch",
    "sandbox": "./image",
    "sif": "./image.sif",
    "squashfs": "./image.sqsh",
}
_RANK = """
import json, os, sys
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT MUSTER_LAUNCHER MINE".split()
read = sys.stdin.readline().strip()
print(json.dumps({**{name: os.environ.get(name) for name in names}, "read": read}), flush=True)
if os.environ["RANK"] == os.environ.get("STUB_FAILS"):
    sys.exit(7)
"""


class Case(NamedTuple):
    """A launcher and an engine, in the place where the launcher works."""

    launcher: str
    engine: str

    def __str__(self) -> str:
        return f"{self.launcher}-{self.engine}"


def _names() -> tuple[str, ...]:
    ours = (name for name in launcher_names() if launcher_named(name).starts_ranks)
    return tuple(dict.fromkeys((*ours, *(launcher.name for launcher in EXTRA))))


CASES = tuple(Case(launcher, engine) for launcher in _names() for engine in engine_names())


def plan_of(case: Case, folder: Path, *more: str, stream: bool = True) -> Plan | MusterError:
    """The plan of four ranks on two nodes, or the sentence that refuses it."""
    launcher = launcher_named(case.launcher)
    engine = Engine.SLURM if Engine.SLURM in launcher.engines else Engine.HERE
    words = [*("-N", "2", "--ntasks-per-node", "2", "--chdir", str(folder), "--env", "MINE=a b$c", "--grace", "1")]
    kinds = engine_named(case.engine).runs
    facts = replace(FACTS, working_directory=str(folder), home=str(folder), python=str(folder / "tools" / "python"))
    if kinds:
        kind = next(kind for kind in _IMAGES if kind in kinds)
        words += ["--image", _IMAGES[kind], "--engine", case.engine]
        is_file = _IMAGES[kind].startswith("./")
        if is_file:
            (folder / _IMAGES[kind]).mkdir(exist_ok=True)
        facts = replace(facts, image=ImageFacts(project=str(folder), package=None, kind=kind if is_file else None))
    try:
        return plan(
            *(*words, *more, "--", str(folder / "rank")),
            launcher=case.launcher,
            facts=facts,
            engine=engine,
            within=stream and engine is Engine.SLURM,
            stream=stream,
        )
    except MusterError as error:
        return error


class Ran(NamedTuple):
    """What came of a script."""

    result: ProgramResult
    ranks: list[dict[str, str | None]]
    labels: list[int | None]


# The first lines of a program in Python. The kernel takes no path with spaces there; Python reads them as a text.
_BY_PYTHON = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
'''
"""


def execute(made: Plan, folder: Path, **more: str) -> Ran:
    """Run the script with stub programs that start real processes; rank 0 finds a line on its standard input."""
    tools = folder / "tools"
    shutil.copytree(HERE / "stubs", tools, dirs_exist_ok=True)
    for launcher in EXTRA:
        shutil.copy(HERE / "extra" / launcher.name, tools)
    for name in engine_names():
        if engine_named(name).program:
            shutil.copy(tools / "engine", tools / engine_named(name).program)
    shutil.copy(tools / "python", tools / "python3")
    for tool in tools.iterdir():  # not by their own name
        tool.write_text(tool.read_text().replace("#!/usr/bin/env python3\n", _BY_PYTHON, 1))
    # No Python by its first word: the agent would be that Python's own, and no stub.
    (folder / "rank").write_text(f"{_BY_PYTHON}{_RANK}")
    (folder / "rank").chmod(0o755)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "STUB_IMAGE": str(made.image.image or "").removeprefix("docker://")
        if engine_named(made.image.engine).only_verb is not None
        else str(made.image.image),
        "SLURM_JOB_ID": str(os.getpid()),  # the port comes from it: two runs of the tests at once differ
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS_PER_NODE": "2",
        **({} if is_in_slurm(made) else {"MUSTER_PORT": str(_free_port())}),
        "SLURM_SUBMIT_DIR": str(folder),
        **more,
    }
    script = folder / "job.sh"
    script.write_text(job_script(made))
    result = run(["bash", str(script)], env=environment, cwd=folder, stdin="one line\n", timeout_s=60)
    lines = [line for line in result.stdout.splitlines() if "WORLD_SIZE" in line]
    ranks = [json.loads(line[line.index("{") :]) for line in lines]
    labels = [_label(line[: line.index("{")]) for line in lines]
    return Ran(result, ranks, labels)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _label(text: str) -> int | None:
    """The rank that a label names, in the form of any launcher."""
    found = re.fullmatch(r"\s*(?:\[1,)?(\d+)(?:\]<stdout>:|: )", text)
    return int(found[1]) if found else None


def is_in_slurm(made: Plan) -> bool:
    """Whether a program that is not Muster starts the ranks."""
    return launcher_named(made.launcher).starter(made.engine) is not Starter.MUSTER
