"""Small parts of the reader of scripts, at their edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.errors import RequestError
from muster.sites.load import load
from muster_lint.array_values import shared_results, tasks_of_array
from muster_lint.job import read_job
from muster_lint.port.guards import is_guarded
from muster_lint.port.origin import guess_origin
from muster_lint.read import scripts_below, source_of
from muster_lint.sizes import text_of_program, trainer_numbers
from muster_lint.values import TextSpan
from sites.profiles import written


def test_no_line_stands_before_the_first() -> None:
    assert not is_guarded(["cd x", "true &&"], TextSpan(1, 1, 1, 5))


def test_a_script_whose_first_line_names_no_program_is_refused() -> None:
    with pytest.raises(RequestError, match="is a strange script"):
        source_of("job", "#!/\necho\n")


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ("--ntasks=2 --ntasks-per-node=1", 2),
        ("--ntasks=8 --ntasks-per-node=4", 2),
        ("--ntasks=3 --ntasks-per-node=2", None),  # two or three
        ("--ntasks=8", None),
        ("--ntasks-per-node=4", None),
        ("--nodes=4 --ntasks=2 --ntasks-per-node=1", 2),
        ("--nodes=1-4 --ntasks=4 --ntasks-per-node=1", None),
    ],
)
def test_nodes_follow_from_the_tasks_where_the_header_names_none(options: str, nodes: int | None) -> None:
    assert read_job("job.sh", f"#!/bin/bash\n#SBATCH {options}\ndate\n").nodes == nodes


_PLACES = """\
[partitions.special]
[partitions.gpu]
[qos.rare]
[nodes.one]
gpus = 4
[filesystems.one]
path = "/lustre/$USER"
use = "u"
[filesystems.two]
path = "/gpfs/projects/$USER"
use = "u"
[filesystems.three]
path = "/scratch/$USER"
use = "u"
[request]
account_pattern = "p[0-9]+"
features = ["fast", "gpu"]
gres_names = ["gpu:own", "gpu:a100"]
[modules]
renamed = { longmodulename = "x", short = "y" }
"""


@pytest.mark.parametrize(
    ("lines", "signs"),
    [
        ("--partition=special", "--partition=special"),
        ("--partition=gpu", None),
        ("--partition=other", None),
        ("--qos=rare", "--qos=rare"),
        ("--partition=gpu --account=p12", "--partition=gpu, --account=p12"),
        ("--partition=gpu --constraint=gpu", None),
        ("--partition=gpu --constraint=fast", "--partition=gpu, --constraint=fast"),
        ("--account=p12", None),
        ("--account=q12 --partition=gpu", None),
        ("--gres=gpu:own:2", "--gres=gpu:own"),
        ("--gres=gpu:a100:2", None),
        ("--gres=gpu:a100:2 --account=p12", "--account=p12, --gres=gpu:a100"),
        ("--account=p12 cd /lustre/x", "--account=p12, /lustre"),
        ("--account=p12 cd /gpfs/projects/x", "--account=p12, /gpfs/projects"),
        ("--account=p12 cd /scratch/x", None),
        ("module load longmodulename", "longmodulename"),
        ("--account=p12 module load short", None),
    ],
)
def test_the_site_of_a_script_is_known_by_names_of_its_own(tmp_path: Path, lines: str, signs: str | None) -> None:
    sites = [
        load(str(written(tmp_path, f'muster_site = 1\nname = "{name}"\ntitle = "t"\n{text}', name)))
        for name, text in (("mine", _PLACES), ("other", "[partitions.gpu]\n[nodes.one]\ngpus = 4\n"))
    ]
    header = "".join(f"#SBATCH {word}\n" for word in lines.split() if word.startswith("--"))
    body = " ".join(word for word in lines.split() if not word.startswith("--"))
    job = read_job("job.sh", f"#!/bin/bash\n{header}{body}\ntrue\n")
    found = guess_origin(job, sites)
    assert found is None if signs is None else found is not None and (found[0].name, found[1]) == ("mine", signs)
    assert guess_origin(job, [sites[0], sites[0]]) is None  # two that fit as well


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ("", 0), ("--array=1-3", 3), ("--array=0-3%2", 4), ("--array=1,5,7-8", 4), ("--array=1-5:2", 0),
        ("--array=1-1000", 1000), ("--array=1-1001", 0), ("--array=1-999,5,6", 0), ("--array=$N", 0),
    ],
)  # fmt: skip
def test_the_tasks_of_an_array_are_numbers_and_ranges(options: str, tasks: int) -> None:
    header = f"#SBATCH {options}\n" if options else ""
    assert len(tasks_of_array(read_job("job.sh", f"#!/bin/bash\n{header}date\n"))) == tasks


@pytest.mark.parametrize(
    ("first", "second", "use", "found"),
    [
        ("LR=1 OUT=a", "LR=2 OUT=a", "$OUT", ("a", 0, 1)),
        ("LR=1 OUT=a", "LR=2 OUT=b", "$OUT", None),
        ("LR=1 OUT=a", "LR=1 OUT=a", "$OUT", None),
        ("LR=1 OUT=a", "LR=2 OUT=a", "$OTHER", None),
        ("LR=1 NAME=a", "LR=2 NAME=a", "$NAME", None),
    ],
)
def test_two_tasks_of_an_array_that_write_to_one_place(
    first: str, second: str, use: str, found: tuple[str, int, int] | None
) -> None:
    case = f'case "$SLURM_ARRAY_TASK_ID" in\n0) {first} ;;\n1) {second} ;;\nesac\n'
    job = read_job("job.sh", f"#!/bin/bash\n#SBATCH --array=0-1\n{case}python t.py {use}\n")
    assert [each[1:] for each in shared_results(job)] == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("name", "text", "files"),
    [
        ("a.sbatch", "#SBATCH -N1\n", ["a.sbatch"]),
        ("a.py", "#SBATCH -N1\n", []),
        ("a.sh", "date\n", []),
        ("a.sh", "  srun date\n", ["a.sh"]),
        (".git/a.sh", "srun date\n", []),
        ("node_modules/a.sh", "srun date\n", []),
        ("sub/a.sh", "srun date\n", ["sub/a.sh"]),
    ],
)
def test_a_folder_stands_for_the_batch_scripts_below_it(tmp_path: Path, name: str, text: str, files: list[str]) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert list(scripts_below(str(tmp_path))) == [str(tmp_path / each) for each in files or [""]]
    assert list(scripts_below("-")) == ["-"]


@pytest.mark.parametrize(
    ("imports", "is_whole", "read"),
    [
        ("", True, 1), ("import own", True, 2), ("from own import x", True, 2), ("import other", True, 1),
        ("import pack", False, 1), ("from . import own", True, 1), ("from .own import x", True, 2),
        ("import own, more", True, 3),
    ],
)  # fmt: skip
def test_a_program_is_read_with_the_files_beside_it(tmp_path: Path, imports: str, is_whole: bool, read: int) -> None:
    for name in ("own", "more"):
        (tmp_path / f"{name}.py").write_text("x = 1\nimport own\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "train.py").write_text(f"{imports}\ny = 2\n")
    whole, text = text_of_program(tmp_path / "train.py")
    assert (whole, text.count(" = ")) == (is_whole, read)
    assert text_of_program(tmp_path / "gone.py") == (False, "")


@pytest.mark.parametrize(("most", "is_whole"), [(3, True), (2, False), (1, False)])
def test_a_program_of_too_many_files_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_whole: bool
) -> None:
    monkeypatch.setattr("muster_lint.sizes._MOST_FILES", most)
    (tmp_path / "train.py").write_text("import own\n")
    (tmp_path / "own.py").write_text("x = 1\n")
    whole, text = text_of_program(tmp_path / "train.py")
    assert (whole, "x = 1" in text) == (is_whole, most > 1)


@pytest.mark.parametrize(
    ("call", "numbers"),
    [
        ("lightning.Trainer(devices=4, num_nodes=2)", [("devices", 4), ("num_nodes", 2)]),
        ("lightning.Trainer(devices=True)", []),
        ("lightning.Trainer(devices='4')", []),
        ("lightning.Trainer(devices=n)", []),
        ("lightning.Other(devices=4)", []),
    ],
)
def test_the_numbers_of_a_trainer_are_numbers(tmp_path: Path, call: str, numbers: list[tuple[str, int]]) -> None:
    (tmp_path / "t.py").write_text(f"import lightning\n{call}\n")
    assert list(trainer_numbers(tmp_path / "t.py", "devices", "num_nodes")) == numbers
    (tmp_path / "t.py").write_text("(\n")
    assert list(trainer_numbers(tmp_path / "t.py", "devices")) == []
