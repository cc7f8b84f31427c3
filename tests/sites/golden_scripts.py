"""The jobs of all sites: each site × (one GPU, one node, four nodes) × launcher × (environment, container).

Of each site two jobs are kept in golden files. All others are computed and held to what every script has to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from launch.plans import JOB_FACTS, plan
from muster.errors import MusterError
from muster.facts import Facts, ImageFacts
from muster.images import engines_in_options
from muster.model.plan import Plan
from muster.render.script import job_script

from .profiles import SITES, bundled

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "sites"
SIZES = ("one-gpu", "one-node", "four-nodes")
MODES = ("venv", "container")
LAUNCHERS = ("srun", "torchrun", "mpirun", "mpirun+torchrun")
VENV = "/home/ada/env"

_IMAGE_FACTS = replace(
    JOB_FACTS,
    image=ImageFacts(project="/home/ada", package="/opt/venv/muster", programs={"apptainer": "/usr/bin/apptainer"}),
)


def facts_of(mode: str) -> Facts:
    """Return what `muster submit` finds for a job with an environment, or in a container."""
    return _IMAGE_FACTS if mode == "container" else JOB_FACTS


class Case(NamedTuple):
    """One job of a site; the launcher `auto` is the one that the site prefers."""

    site: str
    size: str
    launcher: str
    mode: str

    @property
    def file(self) -> Path:
        return GOLDEN / f"{self.site}-{self.mode}.sh"

    def __str__(self) -> str:
        return f"{self.site}-{self.size}-{self.launcher}-{self.mode}"


KEPT = tuple(Case(site, "four-nodes", "auto", mode) for site in SITES for mode in MODES)
"""The jobs whose scripts are golden files."""


@cache
def cases() -> tuple[Case, ...]:
    """Every case; a launcher that the site does not allow is in the catalogue of wrong requests."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for site in SITES:
        allowed = bundled(site).profile.launch.allowed or LAUNCHERS
        for size in SIZES:
            for launcher in dict.fromkeys((*LAUNCHERS, *allowed)):
                for mode in MODES if launcher in allowed else ():
                    yield Case(site, size, launcher, mode)


def image_of(site: str) -> str:
    """An image as a person of this site would name it: the site's own, else one in the engine's usual form."""
    profile = bundled(site).profile
    kept = next((name for name, image in profile.images.items() if not image.gone and _runs(site, image.engine)), None)
    if kept is not None:
        return f"site:{kept}"
    engines = {container.engine for container in profile.containers.values()}
    return (
        "/images/train.sif" if engines & {"apptainer", "singularity"} or not engines else "docker://quay.io/ada/torch:2"
    )


def _runs(site: str, container: str | None) -> bool:
    containers = bundled(site).profile.containers
    engine = containers[container].engine if container in containers else container
    return engine in engines_in_options()


def words_of(case: Case) -> list[str]:
    """The request: the one on the site's page, in this size."""
    page = (ROOT / "docs" / "sites" / f"{case.site}.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("muster plan "))
    words = shlex.split(line)[4 : shlex.split(line).index("--as")]
    gpus = next(iter(bundled(case.site).profile.nodes.values())).gpus or 1
    nodes, asked = {"one-gpu": (1, 1), "one-node": (1, gpus), "four-nodes": (4, gpus)}[case.size]
    words[words.index("-N") + 1] = str(nodes)
    words[words.index("-g") + 1] = str(asked)
    if "--mem" in words and case.size == "one-gpu":
        place = words.index("--mem") + 1
        words[place] = f"{int(words[place].rstrip('G')) // gpus}G"
    return [*words, *(["--venv", VENV] if case.mode == "venv" else ["--image", image_of(case.site)])]


@cache
def plan_of(case: Case) -> Plan | MusterError:
    """The plan of the case, or the sentence that refuses it."""
    command = ("--", "python", "train.py")
    try:
        return plan(*words_of(case), *command, site=case.site, launcher=case.launcher, facts=facts_of(case.mode))
    except MusterError as error:
        return error


def made_of(case: Case) -> Plan:
    """The plan of a case that no site refuses."""
    made = plan_of(case)
    assert not isinstance(made, MusterError), made
    return made


@cache
def script_of(case: Case) -> str:
    """The whole script of a case that no site refuses."""
    return job_script(made_of(case))
