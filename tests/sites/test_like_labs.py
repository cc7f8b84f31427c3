"""A lab like a site, made of its profile: a real sbatch takes the right requests and Muster's own script, and refuses
the wrong ones. An ordinary user types, for root is bound by no rule.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from muster.lab.like import job_submit_lua, lab_like
from muster.sites.rules import Ask
from plugins.labs import Lab, Person, lab_up

from .profiles import COMPLETE, SIXTEEN, bundled
from .wrong import CATALOGUE, RIGHT, Wrong

# What sbatch cannot know: these are refused by Muster alone.
NOT_SBATCHS = {"launcher", "renamed-module", "image-gone", "account-form"}


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
    return [wrong for wrong in CATALOGUE if wrong.site == name and wrong.rule not in NOT_SBATCHS]


@pytest.mark.lab
@pytest.mark.parametrize("name", COMPLETE)
def test_sbatch_takes_what_is_right_and_refuses_what_is_bent(name: str, tester: Person, scratch: Path) -> None:
    with lab_up(tester, f"like-{name}", "--like", name, "-N", "2") as lab:
        status, said = answer(lab, words_of(name, right(name)))
        assert status == 0, said
        for wrong in bent_of(name):
            status, said = answer(lab, words_of(name, {**right(name), **wrong.bent}))
            assert status != 0, f"{wrong}: {said}"
        options = _plan_options(name)
        script = scratch / f"{name}.sh"
        script.write_text(lab.person.muster("plan", *options, "--as", "script", "--", "python", "train.py").stdout)
        script.chmod(0o755)
        done = lab.exec(["sbatch", "--test-only", str(script)], user="alice")
        assert done.status == 0, done.stderr


def _plan_options(name: str) -> list[str]:
    page = Path(__file__).resolve().parents[2] / "docs" / "sites" / f"{name}.md"
    line = next(line for line in page.read_text().splitlines() if line.startswith("muster plan "))
    words = shlex.split(line)[2:]
    return words[: words.index("--as")]


@pytest.mark.parametrize("name", SIXTEEN)
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
    for name in SIXTEEN:
        for line in job_submit_lua(bundled(name).profile).splitlines():
            assert line.count('"') % 2 == 0
