"""A site with two kinds of GPU, described by its page alone: the plans of the page, its refusals, and its lab."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from launch.plans import plan
from muster.errors import ProfileError, RequestError
from muster.render.script import job_script
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.sites.schema import Profile
from muster_lab.like import lab_like
from plugins.labs import Person, lab_up
from sites.profiles import written

PAGE = Path(__file__).parents[2] / "docs/guides/two-kinds-of-gpu.md"
TEXT = PAGE.read_text(encoding="utf-8")
PROFILE = re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)[1]  # type: ignore[index]
NOBODY = SearchPath(site_wide=None)


def table(title: str) -> list[list[str]]:
    """Return the cells of the rows of a table of the page, by the title of its second column."""
    lines = TEXT.partition(f"| typed | {title} |")[2].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def two_kinds(folder: Path) -> Profile:
    """Return the profile of the page, written into this folder."""
    return load(str(written(folder, PROFILE, "orchard")), NOBODY).profile


RIGHT, WRONG = table("partition | QOS | GPUs | CPUs of a rank | memory"), table("because | hint")


@pytest.fixture(scope="module")
def orchard(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(written(tmp_path_factory.mktemp("orchard"), PROFILE, "orchard"))


def typed(cell: str, *, account: bool = True) -> list[str]:
    words = shlex.split(cell.split("`")[1])
    return [*(["-A", "phys-100"] if account else []), "-t", "60", *words, "--", "python", "train.py"]


def test_the_page_has_twelve_of_each() -> None:
    assert (len(RIGHT), len(WRONG)) == (12, 13)


@pytest.mark.parametrize("row", RIGHT, ids=lambda row: row[0])
def test_a_right_request_becomes_the_plan_of_the_page(orchard: str, row: list[str]) -> None:
    made = plan(*typed(row[0]), site=orchard)
    header = {directive.name: directive.value for directive in made.directives}
    gpus = header.get("gres") or "none"
    memory = f"{header['mem-per-gpu']} a GPU" if "mem-per-gpu" in header else "none"
    partition = header.get("partition") or "not named: the default, a100"
    assert [partition, header.get("qos"), gpus, header.get("cpus-per-task"), memory] == row[1:]


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[0])
def test_a_wrong_request_is_refused_in_the_words_of_the_page(orchard: str, row: list[str]) -> None:
    with pytest.raises(RequestError) as refused:
        plan(*typed(row[0], account="without" not in row[0]), site=orchard)
    assert row[1].partition(" (")[0] in str(refused.value)
    assert refused.value.hint == row[2].replace("`", "")


def test_each_kind_of_host_of_its_lab_has_its_own_gres_and_each_partition_its_qos(orchard: str) -> None:
    spec = lab_like(load(orchard, NOBODY).profile, name="orchard")
    assert [(group.prefix, group.gpu_type, group.gpus) for group in spec.groups][:2] == [
        ("a100-n", "a100", 4),
        ("h100-n", "h100", 4),
    ]
    by_name = {partition.name: partition for partition in spec.partitions}
    assert by_name["h100"].hosts == spec.groups[1].names
    assert by_name["scavenge"].hosts == (*spec.groups[0].names, *spec.groups[1].names)
    assert ("AllowQos", "hopper") in by_name["h100"].options
    assert ("AllowQos", "standard,long") in by_name["a100"].options


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('qos = ["hopper"]', 'qos = ["hoper"]', ["no QOS named 'hoper'", "hopper"]),
        ('other_nodes = ["h100"]', 'other_nodes = ["h10"]', ["partitions.scavenge.other_nodes", "'h10'"]),
        ("[qos.hopper]", '[qos.hopper]\nqos = ["long"]', ["qos.hopper.qos", "belongs to a partition"]),
        (
            'partition = "a100"\nreason = "everything',
            'partition = "a100"\nqos = "hopper"\nreason = "everything',
            ["a100 takes jobs of the QOS standard or long, but the rule names hopper"],
        ),
    ],
)
def test_a_mistake_in_the_names_of_a_partition_is_told(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    assert PROFILE.count(old) == 1
    path = written(tmp_path, PROFILE.replace(old, new), "orchard")
    with pytest.raises(ProfileError) as error:
        load(str(path), NOBODY)
    assert all(word in f"{error.value} {error.value.hint}" for word in words), str(error.value)


def test_a_type_that_only_one_partition_has_leads_there_without_a_rule(tmp_path: Path) -> None:
    """A rule for everything else does not send a job to nodes without its GPUs; closed queues take none."""
    closed = PROFILE.replace("[partitions.h100]\n", "[partitions.h100]\nopen = false\n")
    site = str(written(tmp_path, closed, "orchard"))
    made = plan(*typed("`-g 2 --gpu-type h100`"), site=site)
    header = {directive.name: directive.value for directive in made.directives}
    assert (header["partition"], header["qos"]) == ("scavenge", "scavenger")


@pytest.mark.lab
def test_the_lab_takes_what_the_page_plans_and_refuses_what_it_refuses(
    orchard: str, tester: Person, scratch: Path
) -> None:
    scripts = scratch / "orchard"
    scripts.mkdir(exist_ok=True)
    with lab_up(tester, "orchard", "--like", orchard) as lab:
        for number, row in enumerate(RIGHT):
            (scripts / f"{number}.sh").write_text(job_script(plan(*typed(row[0]), site=orchard)), encoding="utf-8")
            done = lab.exec(["sbatch", "--test-only", str(scripts / f"{number}.sh")], user="alice")
            assert done.status == 0, (row, done.stderr)
        for row, words in zip(WRONG, SBATCH_WORDS):
            done = lab.exec(["sbatch", "--test-only", *words.split(), "--wrap=true"], user="alice")
            assert done.status != 0, (row, done.stderr)


_PAID = "-A phys-100 -t 60"
# The wrong requests of the page, in its order, as a person would type them to sbatch.
SBATCH_WORDS = (
    f"{_PAID} -p h100 -q hopper --gres=gpu:a100:4",
    f"{_PAID} -p a100 -q standard --gres=gpu:h100:4",
    "-A phys-100 -t 10 -p debug -q debug --gres=gpu:1",
    f"{_PAID} -p debug -q debug",
    f"{_PAID} -p h100 -q standard --gres=gpu:h100:4",
    f"{_PAID} -p a100 -q hopper --gres=gpu:a100:4",
    f"{_PAID} -q long --gres=gpu:h100:4",
    f"{_PAID} -p h100 -q hopper -N 3 --gres=gpu:h100:4",
    f"{_PAID} -p a100 -q standard --gres=gpu:a100:5",
    f"{_PAID} -p a100 -q standard --gres=gpu:a100:4 --ntasks-per-node=4 -c 20 -n 4",
    f"{_PAID} -p a100 -q long -N 3 --gres=gpu:a100:4",
    f"{_PAID} -p scavenge -q scavenger -N 25 --gres=gpu:a100:4",
    "-t 60 -p a100 -q standard --gres=gpu:a100:4",
)
