"""Guards that there is one planner: the room that plans makes all of the plan that a verb, or Python, gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import muster
from muster.cli.app import main
from muster.errors import RequestError
from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.look.gather import gather_facts
from muster.look.probe import look
from muster.model.digest import digest_of
from muster.model.plan import Engine, Plan
from muster.plan.build import make_plan
from muster.render.document import plan_as_json
from muster.sites.load import load

RECORD = {"modules": ["gcc/12"], "torch": "2.3.0", "arch": "sparc", "with": ["horovod"], "cpu_flags": ["avx2"]}
FORKING = "import torch.distributed\nloader = DataLoader(data, num_workers=4)\n"
LUMI = ("-A", "project_465000000", "-t", "10", "-p", "standard-g", "-N", "2")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").touch()
    (tmp_path / "venv/muster.json").write_text(json.dumps(RECORD))
    (tmp_path / "train.py").write_text(FORKING)
    (tmp_path / "rows.csv").write_text("lr\n0.1\n0.2\n")
    return tmp_path


def planned(site: str, *words: str, engine: Engine = Engine.SLURM) -> Plan:
    """The plan of the room that plans, from facts that were gathered before."""
    values, origins, command = parse(words)
    request, profile = request_from({}, values, origins, command), load(site)
    return make_plan(request, profile, gather_facts(request, profile, look(), engine), typed=words, engine=engine)


@pytest.mark.parametrize(
    ("site", "words", "says"),
    [
        ("generic", ("--venv", "venv"), "was built with the modules gcc/12"),
        ("lumi", LUMI, "its workers are forked"),
        ("lumi", (*LUMI, "--venv", "venv"), "was built for sparc, but the nodes are x86_64"),
        ("lumi", (*LUMI, "--workload", "fork"), ""),
        ("generic", ("--sweep", "rows.csv"), "2 rows"),
        ("generic", (), ""),
    ],
)
def test_the_command_line_shows_the_plan_of_the_room_that_plans(
    capsys: pytest.CaptureFixture[str], site: str, words: tuple[str, ...], says: str
) -> None:
    command = ("--", "python", "train.py", *(["{lr}"] if "--sweep" in words else []))
    words = ("--site", site, *words, *command)
    plan = planned(site, *words)
    assert main(["plan", "--as", "json", *words]) == 0
    assert capsys.readouterr().out == plan_as_json(plan)
    assert not says or any(says in note.text for note in plan.notes)


def test_python_gets_the_same_plan() -> None:
    value = muster.plan("train.py", site="lumi", time="10", venv="venv", account="project_465000000").value
    texts = [note.text.partition(":")[0] for note in value.notes]
    assert value.cpu_flags == ("avx2",)
    assert "train.py, line 2" in texts, texts


def test_a_plan_for_this_host_knows_the_record_too() -> None:
    plan = planned("laptop", "--venv", "venv", "-g", "0", "--", "python", "train.py", engine=Engine.HERE)
    assert plan.cpu_flags == ("avx2",)
    assert any("was built for sparc" in note.text for note in plan.notes)
    assert not any("forked" in note.text for note in plan.notes)


@pytest.mark.parametrize(
    ("engine", "is_within", "is_asked"), [(None, False, True), (None, True, False), (Engine.HERE, False, False)]
)
def test_slurm_is_asked_what_the_cluster_is_for_a_job_that_is_to_queue(
    monkeypatch: pytest.MonkeyPatch, engine: Engine | None, is_within: bool, is_asked: bool
) -> None:
    from muster.act import kept_cluster
    from muster.act.prepare import plan_for

    asked: list[bool] = []
    know = kept_cluster.know_cluster

    def note(facts: Facts, *, fresh: bool = False) -> kept_cluster.KnownCluster:
        asked.append(fresh)
        return know(facts, fresh=fresh)

    monkeypatch.setattr(kept_cluster, "know_cluster", note)
    words = ("--site", "generic", "-g", "0", "--", "python", "train.py")
    values, origins, command = parse(words)

    plan_for(request_from({}, values, origins, command), look(), words, engine=engine, is_within=is_within)

    assert bool(asked) == is_asked


def test_the_job_is_found_by_the_digest_of_its_whole_plan() -> None:
    words = ("--site", "generic", "--venv", "venv", "--", "python", "train.py")
    values, origins, command = parse(words)
    from muster.act.prepare import plan_for

    plan = plan_for(request_from({}, values, origins, command), look(), words)
    comment = next(directive.value for directive in plan.directives if directive.name == "comment")
    assert plan.cpu_flags
    assert comment == f"muster:{digest_of(plan)}"


def test_without_an_image_the_script_is_read_also_where_none_was_typed(project: Path) -> None:
    (project / "job.sh").write_text("#!/bin/bash\n#SBATCH -N 2\nhostname\n")
    for words in ((), ("--image", "none")):
        with pytest.raises(RequestError, match="is a batch script"):
            planned("generic", *words, "--", "./job.sh")
