"""A lab like a site, made of its profile: a real sbatch takes the right requests and Muster's own script, and refuses
the wrong ones. An ordinary user types, for root is bound by no rule.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.cli.app import main
from muster.model.plan import Plan
from muster.policy.rules import Ask
from muster.units import parse_walltime_s
from muster_lab.like import job_submit_lua, lab_like
from plugins.labs import Lab, Person, lab_up

from .golden_scripts import cases, plan_of, script_of
from .profiles import FILLED, SITES, bundled
from .published_jobs import SCRIPTS, Script
from .wrong import CATALOGUE, RIGHT, Wrong

# What sbatch cannot know: these are refused by Muster alone.
# (A part of a node that is given out whole is queued there, and pays for all of it.)
NOT_SBATCHS = {"launcher", "renamed-module", "image-gone", "unknown-account", "whole-nodes"}


def words_of(name: str, asked: dict[str, Any]) -> list[str]:
    """The request as sbatch's options."""
    ask = Ask(**asked)
    profile = bundled(name).profile
    kind = f"{ask.gpu_type}:" if ask.gpu_type else ""
    gpus = {"gres": f"--gres=gpu:{kind}{ask.gpus_per_node}", "whole-node": ""}.get(
        profile.request.gpus or "", f"--gpus-per-node={kind}{ask.gpus_per_node}"
    )
    if name == "meluxina" and ask.gpus_per_node < 4:
        gpus = f"--gpus-per-node={ask.gpus_per_node}"
    given = {
        "--nodes": ask.nodes,
        "--ntasks-per-node": ask.ntasks_per_node,
        "--cpus-per-task": ask.cpus_per_task,
        "--time": None if ask.time_s is None else ask.time_s // 60,
        "--mem": ask.mem,
        "--partition": ask.partition,
        "--qos": ask.qos,
        "--account": ask.account,
        "--constraint": ask.constraint,
        **{f"--{flag}": value for flag, value in ask.flags.items()},
    }
    return [*(f"{flag}={value}" for flag, value in given.items() if value is not None), *([gpus] if gpus else [])]


def right(name: str) -> dict[str, Any]:
    """The site's right request, paid by the account that the lab has."""
    example = bundled(name).profile.request.account_example
    return {**RIGHT[name], **({"account": example} if "account" in RIGHT[name] else {})}


def answer(lab: Lab, words: list[str]) -> tuple[int, str]:
    """The status and the words of sbatch --test-only."""
    done = lab.exec(["sbatch", "--test-only", *words, "--wrap=true"], user="alice")
    return done.status, done.stderr


def bent_of(name: str) -> list[Wrong]:
    """What sbatch can see: not GPUs of nodes that come whole, nor what the lab's controller itself fills in."""
    unseen = {"no-gpus", "gpus-max"} if bundled(name).profile.request.gpus == "whole-node" else set()
    mine = [wrong for wrong in CATALOGUE if wrong.site == name and wrong.rule not in {*NOT_SBATCHS, *unseen}]
    filled_in = {"partition", "gres", "nodelist"}
    names = [{*wrong.bent, *wrong.bent.get("flags", {})} for wrong in mine]
    return [wrong for wrong, bent in zip(mine, names) if wrong.rule != "forbidden-flag" or not filled_in & bent]


def scripts_of(name: str) -> list[Script]:
    return [each for each in SCRIPTS if each.site == name]


@pytest.mark.parametrize("name", FILLED)
def test_three_scripts_of_each_site_are_published(name: str) -> None:
    assert len(scripts_of(name)) >= 3


def resources(directives: Mapping[str, str], *, gpus: int) -> dict[str, int | None]:
    """What a header asks for, whatever form it has: nodes, GPUs and CPUs of a node, seconds."""
    tasks = int(directives.get("ntasks-per-node") or directives.get("ntasks", "1"))
    cpus = directives.get("cpus-per-task")
    time = directives.get("time")
    return {
        "nodes": int(directives.get("nodes", "1")),
        "gpus": gpus,
        "cpus": None if cpus is None else tasks * int(cpus),
        "time": None if time is None else parse_walltime_s(time),
    }


def gpus_of(directives: Mapping[str, str]) -> int:
    if "gpus-per-task" in directives:
        return int(directives["gpus-per-task"]) * int(directives["ntasks-per-node"])
    return int((directives.get("gpus-per-node") or directives.get("gres", "0")).rpartition(":")[2])


@pytest.mark.parametrize("published", SCRIPTS, ids=lambda each: f"{each.site}-{each.at.rpartition('/')[2]}")
def test_muster_asks_for_the_same_resources_as_the_published_script(
    published: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", "--site", published.site, *published.ask, "--as", "script", "--", "python", "train.py"]
    assert main(command) == 0, capsys.readouterr().err
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("#SBATCH")]
    header = [word for line in lines for word in shlex.split(line.removeprefix("#SBATCH "))]
    ours = dict(word.removeprefix("--").partition("=")[::2] for word in header)
    theirs = dict(word.removeprefix("--").partition("=")[::2] for word in published.directives)
    has_gpus = gpus_of(theirs) or gpus_of(ours)  # at CSCS the nodes come with theirs
    mine, said = resources(ours, gpus=gpus_of(ours)), resources(theirs, gpus=has_gpus)
    assert {key: value for key, value in mine.items() if said[key] is not None} == {
        key: value for key, value in said.items() if value is not None
    }
    for selector in ("partition", "qos", "account", "constraint"):
        if selector in theirs:
            assert ours.get(selector, "normal") == theirs[selector]


@pytest.mark.lab
@pytest.mark.parametrize("name", FILLED)
def test_sbatch_takes_what_is_right_and_refuses_what_is_bent(name: str, tester: Person) -> None:
    with lab_up(tester, f"like-{name}", "--like", name, "-N", "4") as lab:
        status, said = answer(lab, words_of(name, right(name)))
        assert status == 0, said
        for wrong in bent_of(name):
            status, said = answer(lab, words_of(name, {**right(name), **wrong.bent}))
            assert status != 0, f"{wrong}: {said}"
        for published in scripts_of(name):
            status, said = answer(lab, list(published.directives))
            assert status == 0, f"{published.at}: {said}"
            status, said = answer(lab, [*published.directives, *published.bent])
            assert status != 0, f"{published.at}, against: {published.why}"
        options = _plan_options(name)
        script = lab.person.muster("plan", *options, "--as", "script", "--", "python", "train.py").stdout
        done = lab.exec(["sbatch", "--test-only"], user="alice", stdin=script)
        assert done.status == 0, done.stderr
        assert refused_scripts(lab, name) == []


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SITES if name not in FILLED])
def test_sbatch_takes_every_script_and_refuses_what_is_bent(name: str, tester: Person) -> None:
    with lab_up(tester, f"scripts-{name}", "--like", name, "-N", "4") as lab:
        assert refused_scripts(lab, name) == []
        for wrong in bent_of(name):
            status, said = answer(lab, words_of(name, {**right(name), **wrong.bent}))
            assert status != 0, f"{wrong}: {said}"


# The scripts come by stdin: the lab's ordinary user cannot look into a checkout below /root.
_EACH = """\
cd "$(mktemp -d)" && tar x || exit
for script in *; do said=$(sbatch --test-only <"$script" 2>&1) || echo "$script: $said"; done
rm -r "$PWD"
"""


def refused_scripts(lab: Lab, name: str) -> list[str]:
    """The scripts of a site's jobs that its lab's sbatch refuses, with what it said."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for case in (each for each in cases() if each.site == name):
            # Where no account's form is published, the page says ACCOUNT, and the lab has one called lab.
            if isinstance(plan_of(case), Plan):
                text = script_of(case).replace("--account=ACCOUNT", "--account=lab").encode()
                entry = tarfile.TarInfo(f"{case}.sh")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        assert archive.getnames()
    done = lab.exec(["sh", "-c", _EACH], user="alice", stdin=packed.getvalue().decode())
    assert done.status == 0, done.stderr
    return done.stdout.splitlines()


def _plan_options(name: str) -> list[str]:
    page = Path(__file__).resolve().parents[2] / "docs" / "sites" / f"{name}.md"
    line = next(line for line in page.read_text().splitlines() if line.startswith("muster plan "))
    words = shlex.split(line)[2:]
    return words[: words.index("--as")]


@pytest.mark.parametrize("name", SITES)
def test_every_site_gives_a_lab(name: str) -> None:
    spec = lab_like(bundled(name).profile, name="like", nodes=3)
    assert spec.cluster == name
    assert len(spec.groups[0].names) == 3
    for partition in spec.partitions:
        assert set(partition.hosts) <= set(spec.hosts)


def test_the_lab_of_lumi_has_the_cores_that_jobs_can_have() -> None:
    spec = lab_like(bundled("lumi").profile, name="like")
    assert (spec.groups[0].cpus, spec.groups[0].gpus) == (56, 8)


def test_a_sentence_with_quotes_stays_one_string_of_the_lua_script() -> None:
    for name in SITES:
        for line in job_submit_lua(bundled(name).profile).splitlines():
            assert line.count('"') % 2 == 0


@pytest.mark.parametrize(
    ("site", "line"),
    [
        ("hyperpod", '  if gpus_of(job) == 0 then job.tres_per_node = "gres:gpu:8" end'),
        ("meluxina", '  if job.partition == "gpu" and gpus_of(job) == 0 then job.tres_per_node = "gres:gpu:4" end'),
    ],
)
def test_nodes_that_come_whole_bring_their_gpus_with_and_without_a_partition(site: str, line: str) -> None:
    assert line in job_submit_lua(bundled(site).profile).splitlines()
