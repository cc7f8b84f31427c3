"""The cases of the golden scripts: each site × (one GPU, one node, four nodes) × launcher × (environment, container).

A script is kept whole, in two files: its own lines, and by name the shell text below them, which many scripts share.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import MusterError
from muster.facts import ImageFacts
from muster.images import engines_in_options
from muster.model.plan import Plan
from muster.render.parts import part
from muster.render.script import RULE, job_script

from .profiles import SITES, bundled

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "sites" / "scripts"
SIZES = ("one-gpu", "one-node", "four-nodes")
MODES = ("venv", "container")
LAUNCHERS = ("srun", "torchrun", "mpirun", "mpirun+torchrun")
VENV = "/home/ada/env"

_SHARED = "# The text below is shared: "
_IMAGE_FACTS = replace(
    FACTS,
    image=ImageFacts(project="/home/ada", package="/opt/venv/muster", programs={"apptainer": "/usr/bin/apptainer"}),
)


class Case(NamedTuple):
    """One golden script."""

    site: str
    size: str
    launcher: str
    mode: str

    @property
    def file(self) -> Path:
        return GOLDEN / self.site / f"{self.size}-{self.launcher}-{self.mode}.sh"

    def __str__(self) -> str:
        return f"{self.site}-{self.size}-{self.launcher}-{self.mode}"


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
    facts = _IMAGE_FACTS if case.mode == "container" else FACTS
    try:
        return plan(*words_of(case), "--", "python", "train.py", site=case.site, launcher=case.launcher, facts=facts)
    except MusterError as error:
        return error


def script_of(case: Case) -> str:
    """The whole script, as it is kept."""
    made = plan_of(case)
    if isinstance(made, MusterError):
        return f"# refused: {made.message}\n# hint: {made.hint}\n"
    return as_kept(job_script(made), _all_parts())


# Parts of render/shell that have tests of their own and stand in many scripts: kept by their names.
_BY_NAME = ("image_unpack", "image_asks", "stack", "stack_inside", "venv_inside", "unpacked")


def as_kept(script: str, by_name: Sequence[str] = _BY_NAME) -> str:
    """A script without the digests, which follow every field; of some parts only the name."""
    for name in by_name:
        script = script.replace(part(name), f"# (the part {name})\n")
    script = re.sub(r"sha256 [0-9a-f]{8}\)", "sha256 DIGEST)", script)
    return re.sub(r"comment=muster:[0-9a-f]{12}", "comment=muster:DIGEST", script)


@cache
def _all_parts() -> tuple[str, ...]:
    """Every part by its name: a long one may hold the text of a short one."""
    folder = ROOT / "src" / "muster" / "render" / "shell"
    names = ("agent_keeper.py", *(path.stem for path in folder.rglob("*.sh")))
    return tuple(sorted(names, key=lambda name: -len(part(name))))


def split(script: str) -> tuple[str, str]:
    """(the job, Muster's own text below the line of dashes)."""
    head, line, tail = script.partition(f"{RULE}\n")
    return head + line, tail


def tails(scripts: Mapping[Case, str]) -> dict[str, str]:
    """The shared texts, each called by the first case that has it."""
    names: dict[str, str] = {}
    for case, script in scripts.items():
        _, tail = split(script)
        if tail and tail not in names:
            names[tail] = f"{case}.sh"
    return {name: tail for tail, name in names.items()}


def kept_of(case: Case) -> str:
    """The whole script as it is kept; empty where it is not."""
    if not case.file.exists():
        return ""
    head, mark, name = case.file.read_text().partition(_SHARED)
    return head + ((GOLDEN / "shared" / name.strip()).read_text() if mark else "")


def write(scripts: Mapping[Case, str]) -> None:
    """Keep these scripts, and nothing else."""
    shared = tails(scripts)
    wanted = {GOLDEN / "shared" / name: text for name, text in shared.items()}
    names = {text: name for name, text in shared.items()}
    for case, script in scripts.items():
        head, tail = split(script)
        wanted[case.file] = f"{head}{_SHARED}{names[tail]}\n" if tail else head
    for path in set(GOLDEN.rglob("*.sh")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
