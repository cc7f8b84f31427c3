"""--fix is certain or silent: what it writes repairs the fault and changes nothing else, and a second call nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from muster.cli.app import main
from muster_lint.fix import settled_text
from muster_lint.read import FileKind
from muster_lint.rule import all_rules
from muster_lint.values import LintFinding, Rule
from port.jobs import Job, before

from .test_rules import findings_in


def _look(text: str) -> list[LintFinding]:
    return findings_in(text, FileKind.BATCH)


_REPAIRED = {rule.name: rule for rule in all_rules() if rule.language == "batch" and settled_text(rule.bad, _look)[1]}


def test_some_rules_repair_their_own_example() -> None:
    assert set(_REPAIRED) >= {"no-interpreter", "dos-line-ends", "requeue-overwrites", "srun-cpus-per-task"}


@pytest.mark.parametrize("rule", _REPAIRED.values(), ids=lambda rule: rule.name)
def test_a_repaired_script_has_no_more_findings_than_before(rule: Rule) -> None:
    found = _look(rule.bad)
    text, repaired = settled_text(rule.bad, _look)
    after = _look(text)

    assert {finding.rule for finding in after} < {finding.rule for finding in found} | {
        "gpus-per-task",
        "port-missing",
        "environment-of-submission",
    }
    assert not {finding.rule for finding in repaired} & {finding.rule for finding in after}
    assert settled_text(text, _look) == (text, [])
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --cpus-per-task=4 --time=60\n"
_MEETS = "export MASTER_ADDR=node1 MASTER_PORT=4000\n"

# What the edits of an earlier day broke, or could have.
SILENT = {
    "srun in a variable": _HEAD + _MEETS + 'CMD="srun python t.py"\n$CMD\n',
    "srun in a function's argument": _HEAD + _MEETS + 'go() {\n  "$@"\n}\ngo srun2 python t.py\n',
    "a command that is commented out": _HEAD + "#sbatch --dependency=afterok:1 'x.sh'\nsrun -c 4 -K python t.py\n",
    "a directive that is switched off": _HEAD + "#sbatch --gres=gpu:2 # not now\n# SBATCH --mem=4G\nsrun -c 4 -K python t.py\n",
    "a name that an older torch reads": _HEAD + "export NCCL_ASYNC_ERROR_HANDLING=1\nsrun -c 4 -K python t.py\n",
    "a blank that ends a command": _HEAD + "echo one \\ \necho two\nsrun -c 4 -K python t.py\n",
    "a blank in a text": _HEAD + "cat <<END\nsrun \\ \n  --flag\nEND\nsrun -c 4 -K python t.py\n",
    "one output of all jobs": "#!/bin/bash\n#SBATCH --requeue --time=60 --output=log.txt\nhostname\n",
    "an interpreter in the second line": "\n#!/bin/zsh\n#SBATCH -N 1 -t 5\nhostname\n",
    "what is not bash": "#SBATCH -N 1 -t 5\nif [ 1 ]; then\n",
    "a number of ranks that another line gives": "#!/bin/bash\n#SBATCH --ntasks-per-node=16 -t 5\n#SBTACH --ntasks=1\ndate\n",
    "memory that another line gives": "#!/bin/bash\n#SBATCH --mem=4G -t 5\n#SBTACH --mem-per-cpu=1G\ndate\n",
    "GPUs that another line gives": "#!/bin/bash\n#SBATCH --gpus=4 -t 5\n#SBTACH --gres=gpu:1\ndate\n",
    "signs that end a line for some": "#SBATCH -N 1 -t 5\necho '\x0c'\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_where_it_is_not_certain_nothing_is_written(name: str) -> None:
    assert settled_text(SILENT[name], _look) == (SILENT[name], [])


def test_ranks_that_do_not_wait_for_each_other_may_fail_one_by_one() -> None:
    text, _ = settled_text(_HEAD + "srun python sweep.py\n", _look)

    assert "--cpus-per-task" in text
    assert "--kill-on-bad-exit" not in text


# Script → what stands in it afterwards.
CERTAIN = {
    "two flags": (_HEAD + _MEETS + "srun python t.py --lr 1\n", ["--cpus-per-task=", "--kill-on-bad-exit=1"]),
    "a step in a branch": (_HEAD + _MEETS + "if true; then srun -u python t.py; fi\n", ["--kill-on-bad-exit=1 -u"]),
    "a path": (_HEAD + _MEETS + "time /opt/slurm/bin/srun python t.py\n", ["bin/srun --cpus"]),
    "a broken continuation": (_HEAD + "srun -K -c 4 python t.py \\  \n  --lr 1\n", ["t.py \\\n  --lr 1"]),
    "a slip of the hand": ("#!/bin/bash\n#SBTACH --nodes=2\n#SBATCH -t 5\nsrun -K hostname\n", ["\n#SBATCH --nodes=2\n"]),
    "a requeue in the last line": ("#!/bin/bash\n#SBATCH --requeue -t 5", ["--requeue -t 5\n#SBATCH --open-mode=append"]),
    "line ends of Windows": (_HEAD.replace("\n", "\r\n") + "srun -c 4 -K python t.py\r\n", ["60\nsrun"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CERTAIN)
def test_what_is_certain_is_written_once(name: str) -> None:
    text, wanted = CERTAIN[name]
    better, repaired = settled_text(text, _look)

    assert repaired
    assert all(each in better for each in wanted), better
    assert settled_text(better, _look) == (better, [])


@pytest.mark.parametrize("name", ["two flags", "a step in a branch"])
def test_the_ranks_of_a_repaired_script_get_the_same(name: str, tmp_path: Path) -> None:
    text, _ = CERTAIN[name]
    better, _ = settled_text(text, _look)
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()

    old = before(Job(text), tmp_path / "old")
    new = before(Job(better), tmp_path / "new")

    assert len(old) == 4
    assert [{**rank, "folder": ""} for rank in new] == [{**rank, "folder": ""} for rank in old]


def _write(tmp_path: Path, text: str) -> Path:
    (tmp_path / "job.sh").write_bytes(text.encode())
    return tmp_path / "job.sh"


def test_a_difference_is_shown_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CERTAIN["two flags"][0]
    path = _write(tmp_path, text)

    assert main(["lint", "--diff", str(path)]) == 1
    shown = capsys.readouterr().out
    assert path.read_text() == text
    assert main(["lint", "--fix", str(path)]) in {0, 1}
    written = path.read_text()
    assert written != text
    path.write_text(text)
    subprocess.run(["patch", "-p0", "-s", str(path)], input=shown, text=True, check=True)
    assert path.read_text() == written
    capsys.readouterr()
    assert main(["lint", "--diff", str(path)]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_ignored_is_not_repaired(tmp_path: Path) -> None:
    path = _write(tmp_path, CERTAIN["two flags"][0])
    main(["lint", "--fix", "--ignore=srun-survivors", str(path)])
    assert "--cpus-per-task" in path.read_text()
    assert "--kill-on-bad-exit" not in path.read_text()


def test_a_file_that_is_not_utf_8_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.sh"
    data = CERTAIN["two flags"][0].encode() + b"# caf\xe9\n"
    path.write_bytes(data)
    main(["lint", "--fix", str(path)])
    assert path.read_bytes() == data
    assert "is left as it is" in capsys.readouterr().err
