"""What a site's published scripts ask for, beside what Muster asks for in the same job: line by line.

The facts are in published/SITE.toml, made by reading each script where its `at` says. A difference is explained by an
entry there, by one in published/all.toml, or by the profile itself: a line of the plan that has a document, or an
entry that the profile drops or only offers, with its reason.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Optional

import msgspec
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.facts import ImageFacts
from muster.model.plan import Plan
from muster.render.explain import explain
from muster.sites.site import Site
from muster.sites.text import parse_toml
from muster.units import Memory, Walltime

from .profiles import bundled

FOLDER = Path(__file__).parent / "published"
_IMAGE = replace(
    FACTS,
    image=ImageFacts(
        project="/home/ada", package="/opt/venv/muster", programs={"apptainer": "/usr/bin/apptainer"}, gpu_kind="cuda"
    ),
)


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of one published script."""

    name: str
    at: str
    """Where it can be opened again."""

    kind: Literal["site", "staff", "project"]
    """Whose it is: the site's own; of a member of its staff; of a public project that runs there."""

    dated: dt.date
    ask: tuple[str, ...]
    """Options of `muster plan` for the same job."""

    directives: dict[str, str] = {}
    step: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    modules: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    annotations: dict[str, str] = {}
    container: str | None = None
    verb: str | None = None
    image: str | None = None
    left_out: dict[str, str] = {}
    """Lines of the script that are no facts here, by name, each with the reason (scripts/hold_published.py)."""


class Difference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a line of Muster's is another than the published one."""

    line: str
    why: str
    source: str
    """A document that can be opened again; `muster`: what its own code and its tests show."""


class Published(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is published of one site."""

    site: str | None = None
    script: tuple[Script, ...] = ()
    difference: tuple[Difference, ...] = ()
    missing: str | None = None
    """Why there is none."""


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentence of a document behind a line that only Muster's script has."""

    site: str
    line: str
    value: str = ""
    at: str
    says: str


class Unproved(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line that only Muster's script has, and for which no sentence was found."""

    site: str
    line: str
    why: str


class Sentences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What documents say of Muster's own lines."""

    said: tuple[Said, ...] = ()
    unproved: tuple[Unproved, ...] = ()


class Row(NamedTuple):
    """One line of a comparison."""

    line: str
    theirs: str | None
    ours: str | None
    why: str | None
    """None: the same, or not explained."""

    source: str | None = None

    @property
    def same(self) -> bool:
        return self.theirs == self.ours


@cache
def published(name: str) -> Published:
    """Return the facts of a site's file; nothing for a new site that has none yet, which a test reports."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        return Published()
    return msgspec.convert(parse_toml(path.read_text(), str(path)), Published)


@cache
def sentences() -> Sentences:
    """Return the sentences of documents behind Muster's own lines."""
    path = FOLDER / "said.toml"
    return msgspec.convert(parse_toml(path.read_text(), str(path)), Sentences)


@cache
def lines_published(site: str) -> frozenset[tuple[str, str]]:
    """Return every line with its value that some published script of the site has."""
    return frozenset(item for script in published(site).script for item in lines_of_script(script).items())


def proof_of(site: str, row: Row) -> str | None:
    """Return where a line of Muster's alone comes from, outside the profile: a script, a sentence, an entry."""
    if row.ours is not None and (row.line, row.ours) in lines_published(site):
        return "another published script of the site"
    for name in (site, "all"):
        for each in published(name).difference:
            if each.line == row.line:
                return each.source
    for said in sentences().said:
        if (said.site, said.line, said.value) == (site, row.line, row.ours):
            return said.at
    return next((each.why for each in sentences().unproved if (each.site, each.line) == (site, row.line)), None)


def plan_of(site: str, script: Script) -> Plan:
    """Return Muster's plan of the same job."""
    facts = _IMAGE if "--image" in script.ask else FACTS
    launcher = script.ask[script.ask.index("--launcher") + 1]
    words = [word for word in script.ask if word not in {"--launcher", launcher}]
    return plan(*words, "--", "python", "train.py", site=site, launcher=launcher, facts=facts)


def compare(site: str, script: Script) -> list[Row]:
    """Return every line of either side, with the explanation of each difference."""
    made = plan_of(site, script)
    theirs, ours = lines_of_script(script), dict(lines_of_plan(made))
    ours = {_chosen(line): value for line, value in ours.items()}
    rows = []
    for line in dict.fromkeys((*theirs, *(line for line, _ in ours.items()))):
        said, value = theirs.get(line), ours.get(line, (None, None))[0]
        if said is None and value is not None and _is_given(line, script):
            continue  # a part of the request that the script leaves to who types sbatch
        why, source = (None, None) if said == value else _explained(site, line, ours.get(line, (None, None))[1])
        rows.append(Row(line, said, value, why, source))
    return rows


def _is_given(line: str, script: Script) -> bool:
    return _OPTIONS.get(line, "") in script.ask


_OPTIONS = {
    "header account": "-A",
    "header qos": "-q",
    "header partition": "-p",
    "header exclusive": "--exclusive",
    "nodes": "-N",
    "time": "-t",
    "memory a node": "--mem",
    "cpus a node": "-c",
}


def _chosen(line: str) -> str:
    """Return the line; of a choice between modules, with the first of them."""
    return line.partition("|")[0].replace("'", "") if line.startswith("module load ") else line


def _explained(site: str, line: str, own: tuple[str, str] | None) -> tuple[str | None, str | None]:
    """The entry of the site's file, of the file for all sites, or of the profile."""
    for name in (site, "all"):
        for each in published(name).difference:
            if each.line == line:
                return each.why, each.source
    return own or _of_profile(bundled(site), line) or (None, None)


def _of_profile(site: Site, line: str) -> tuple[str, str] | None:
    """What the profile says of a variable that it drops, or sets only where it is asked for."""
    for number, each in enumerate(site.profile.environment):
        if line == f"environment {each.name}" and each.verdict != "kept":
            source = site.origin(f"environment.{number}").source
            offered = f" (--workload {each.when.workload})" if each.when and each.when.workload else ""
            return f"{each.reason}{offered}", source.at if source else "muster"
    return None


# ---------------------------------------------------------------- their lines


def lines_of_script(script: Script) -> dict[str, str]:
    """Return line → value of a published script; resources in one form, whatever it has."""
    words = dict(script.directives)
    found = dict(_resources(words))
    found |= {f"header {name}": value for name, value in words.items()}
    for flag in script.step:
        name, _, value = flag.replace(" ", "=", 1).partition("=")
        if name not in _OF_RESOURCES:
            found[f"step {name}"] = _mask(value)
    found |= {f"environment {name}": value for name, value in script.environment.items()}
    found |= {f"module {words}": "" for words in script.modules}
    found |= {f"command {words}": "" for words in script.commands}
    found |= {f"annotation {name}": value for name, value in script.annotations.items()}
    for name in ("container", "verb", "image"):
        if getattr(script, name) is not None:
            found[name] = getattr(script, name)
    return found


# Flags of srun that repeat the job's resources: they are compared in the header.
_OF_RESOURCES = {
    *("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task", "--threads-per-core", "--hint"),
    *("--gpus-per-node", "--distribution"),
}


def _resources(words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Take what is an amount out of the directives, and yield it in one form."""
    tasks = int(words.pop("ntasks-per-node", "1"))
    if "nodes" in words:
        yield "nodes", words.pop("nodes")
    gpus = [words.pop(name, None) for name in ("gres", "gpus-per-node")]
    if "gpus-per-task" in words:
        gpus.append(str(int(words.pop("gpus-per-task")) * tasks))
    count = next((each.rpartition(":")[2] for each in gpus if each is not None), None)
    if count is not None:
        yield "gpus a node", count
    if "cpus-per-gpu" in words:
        yield "cpus a node", str(int(words.pop("cpus-per-gpu")) * int(count or 1))
    if "cpus-per-task" in words:
        yield "cpus a node", str(int(words.pop("cpus-per-task")) * tasks)
    if "time" in words:
        yield "time", str(Walltime.parse(words.pop("time")).seconds)
    if "mem" in words:
        yield "memory a node", str(Memory.parse(words.pop("mem")).mib)
    if "mem-per-gpu" in words:
        yield "memory a node", str(Memory.parse(words.pop("mem-per-gpu")).mib * int(count or 1))
    if "hint" in words or "threads-per-core" in words:
        yield "threads a core", "1" if words.pop("hint", "") == "nomultithread" else words.pop("threads-per-core", "1")


def _mask(value: str) -> str:
    """A list of masks as numbers: leading zeros and a `v,` before it say nothing."""
    kind, colon, masks = value.removeprefix("v,").partition(":")
    if kind != "mask_cpu":
        return value
    return kind + colon + ",".join(f"{int(mask, 16):#x}" for mask in masks.split(","))


# ---------------------------------------------------------------- our lines

Line = tuple[str, tuple[str, Optional[tuple[str, str]]]]

# Lines that every script of Muster's has, and no site's: what a job is called, how it is found again.
_OUR_OWN = frozenset({"header job-name", "header export", "header comment", "header output", "header error"})


def lines_of_plan(made: Plan) -> Iterator[Line]:
    """Yield (line, (value, (reason, document))) of Muster's own script."""
    words = {each.name: each.value or "" for each in made.directives}
    reasons = {each.name: _why(each.reason.text, each.reason.source) for each in made.directives}
    tasks = words.get("ntasks-per-node")
    for line, value in _resources(words):
        yield line, (value, reasons.get(_DIRECTIVE.get(line, "")))
    del tasks
    for name, value in words.items():
        if f"header {name}" not in _OUR_OWN:
            yield f"header {name}", (value, reasons[name])
    for section, text, reason in explain(made):
        why = _why(reason.text, reason.source)
        if section == "step":
            name, _, value = text.partition("=")
            if name.startswith("--") and name not in _OF_RESOURCES:
                yield f"step {name}", (_mask(value.strip("'\"")), why)
        elif section == "environment" and text.startswith("export "):
            name, _, value = text.removeprefix("export ").partition("=")
            yield f"environment {name}", (value.strip("'\""), why)
        elif section == "prelude":
            yield _prelude(text), ("", why)
    yield from _of_image(made)


# The directive that carries an amount, for its reason.
_DIRECTIVE = {
    "threads a core": "hint",
    "memory a node": "mem",
    "cpus a node": "cpus-per-task",
    "gpus a node": "gres",
    "nodes": "nodes",
}


def _why(text: str, source: str | None) -> tuple[str, str] | None:
    return None if source is None else (text, source)


def _prelude(text: str) -> str:
    if text.startswith("module "):
        return text
    if text.startswith(". ") and "activate" in text:
        return "command activate"
    return f"command {re.sub(r'^muster_modules .*', 'module', text)}"


def _of_image(made: Plan) -> Iterator[Line]:
    image = made.image
    if image.image is None:
        return
    why = (image.engine_reason.text, image.engine_reason.source or "muster")
    yield "container", (image.engine, why)
    if image.program:
        yield "verb", (image.verb, (image.verb_reason.text, image.verb_reason.source or "muster"))
    for name, value in image.annotations:
        yield f"annotation {name}", (value, why)
    if image.entrypoint:
        yield "annotation entrypoint", ("true", why)
    if image.engine == "cscs":
        yield "step --environment", ("EDF", why)


def rows_of(site: str) -> Mapping[str, list[Row]]:
    """Return the comparison of each script of a site, by its name."""
    return {script.name: compare(site, script) for script in published(site).script}
