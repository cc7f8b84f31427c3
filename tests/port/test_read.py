"""Nothing is lost in silence: every line of every script is in its table. And what is read is what was meant."""

from __future__ import annotations

import re
import subprocess

import pytest

from muster_lint.port.target import request_of
from muster_lint.port.values import Fate
from muster_lint.rule import all_rules
from muster_lint.values import Rule

from .scripts import lacking, read

BATCH = [rule for rule in all_rules() if rule.language == "batch"]
_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=10\n"


@pytest.mark.parametrize("rule", BATCH, ids=lambda rule: rule.name)
def test_nothing_of_an_example_is_lost(rule: Rule) -> None:
    """The rules' own examples are the strangest scripts that we have."""
    for text in (rule.bad, rule.good):
        if ("srun" not in text and "SBATCH" not in text) or re.search(r"^\s*sbatch ", text, re.MULTILINE):
            continue
        job, draft = read(text)
        assert lacking(job, draft) == []


def test_the_line_is_one_that_the_shell_and_muster_read(tmp_path: object) -> None:
    """Quotes, dollars and blanks arrive in the rank as the script's own shell would hand them over."""
    text = _HEAD + "export D='a b'\nsrun python a.py --x=\"$D\" 'it'\"'\"'s' \"$HOME/x\"\n"
    _, draft = read(text)
    request = request_of(draft)
    shell = ["env", "HOME=/h", *request.command]
    shell[-1] = shell[-1].replace("exec python a.py", "printf '%s\\n'")
    said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert said == "--x=a b\nit's\n/h/x\n"


def test_what_stands_in_a_branch_or_a_loop_is_asked() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n"
        'if [ "$1" = big ]; then\n  module load nccl\n  export BATCH=512\nfi\n'
        "for i in 1 2; do\n  srun python eval.py $i\ndone\nwhile ! test -f done; do sleep 1; done\n"
    )
    _, draft = read(text)
    asked = {row.line for row in draft.rows if row.verdict is Fate.ASKED}
    assert asked >= {4, 5, 6, 8, 9, 11}
    row = next(row for row in draft.rows if row.line == 5)
    assert "the if of line 4" in row.why


_STEP = "srun python t.py"


@pytest.mark.parametrize(
    ("body", "what", "verdict", "now", "why"),
    [
        (f"{_STEP} | tee log", "tee log", "dropped", "", "in the run directory"),
        (f"{_STEP}\ntee x <y", "tee x", "not carried", "", "nothing after the ranks"),
        (f"tee x <y\n{_STEP}", "tee x", "not carried", "", "nothing before the ranks"),
        (f"cat a | {_STEP}", "cat a | …", "not carried", "", "the input of the ranks"),
        (f"cat a >b\n{_STEP}", "cat a", "not carried", "", "it writes b"),
        (f"srun mkdir -p /a\n{_STEP}", "srun mkdir -p /a", "changed", "--node-prologue", "before its ranks"),
        (f"{_STEP}\nsrun hostname", "srun hostname", "not carried", "", "nothing after the ranks"),
        (f"srun python a.py\n{_STEP}", "srun python a.py", "not carried", "", "a job of its own"),
        (f"{_STEP}\nmodule load x", "module load x", "dropped", "", "behind the launch"),
        (f"{_STEP}\nmkdir y", "mkdir y", "not carried", "", "make others by hand"),
        (f"exit 0\n{_STEP}", "exit 0", "asked", "", "does it always?"),
        (f"{_STEP}\nexit 0", "exit 0", "dropped", "", ""),
        (f"pushd /a\npopd\n{_STEP}", "popd", "asked", "", "it leaves /a"),
        (f"popd\n{_STEP}", "popd", "dropped", "", "one working directory"),
        (f"cd /a\ncd b\n{_STEP}", "cd /a", "dropped", "", "-D /a/b"),
        (f"cd /a\ncd b\n{_STEP}", "cd b", "kept", "-D /a/b", "below the folder above"),
        ("cd /a\nsrun --chdir=/c python t.py", "cd /a", "dropped", "", "-D /c"),
        ("srun --export=NONE python t.py", "srun --export=NONE (not ALL)", "asked", "", "nothing else"),
        ("srun --export=A,B=3 python t.py", "srun --export=A,B=3 (not ALL)", "asked", "", "nothing else"),
        ("srun --export=ALL,B=3 python t.py", "srun --export=ALL,B=3", "kept", "--env B=3", "of the ranks"),
        ("srun --foo=1 python t.py", "srun --foo=1", "kept", "--srun=--foo=1", "Muster hands on"),
        ("srun --foo=$X python t.py", "srun --foo=$X", "asked", "", "whose value the script does not say"),
        ("A=a.py\nX=$A\nA=2 hostname\nsrun python $X", "python …", "kept", "python a.py", "word for word"),
        ('eval "A=1 srun python t.py"', "A=1", "kept", "--env A=1", "of the ranks"),
        ('eval "srun python t.py >x"', "> x", "changed", "", "of each rank's own"),
        ('eval "srun python t.py; date"', "bash -c …", "asked", "COMMAND", "among other lines"),
        ('eval "srun python t.py ("', "bash -c …", "asked", "COMMAND", "among other lines"),
        ("mpirun -x A python t.py", "mpirun -x A", "kept", "", "over ssh too"),
        ("mpirun -x A=1 python t.py", "mpirun -x A=1", "kept", "--env A=1", "of the ranks"),
        ("mpirun --mca btl tcp python t.py", "mpirun --mca btl tcp", "kept", "--env OMPI_MCA_btl=tcp", ""),
        ("mpirun -genv C 4 python t.py", "mpirun -genv C 4", "kept", "--env C=4", ""),
        ("mpirun --map-by node python t.py", "mpirun --map-by node", "dropped", "", "one after the other"),
        ("mpirun --strange python t.py", "mpirun --strange", "asked", "", "no option of Muster's"),
        ("srun apptainer exec --nv i.sif python t.py", "apptainer --nv", "dropped", "", "for the GPUs"),
        ("srun apptainer exec -e i.sif python t.py", "apptainer -e", "dropped", "", "shows what it gets"),
        ("srun apptainer exec --env B=2,C=3 i.sif python t.py", "apptainer --env B=2,C=3", "kept", "--env B=2", ""),
        ("srun apptainer exec --bind /x:/y i.sif python t.py", "apptainer --bind /x:/y", "kept", "--bind /x:/y", ""),
        ("srun apptainer exec --odd=z i.sif python t.py", "apptainer --odd=z", "asked", "", "no option of Muster's"),
    ],
)
def test_what_a_line_of_a_script_becomes(body: str, what: str, verdict: str, now: str, why: str) -> None:
    rows = [row for row in read(f"{_HEAD}{body}\n")[1].rows if row.what == what]
    assert (str(rows[0].verdict), now in rows[0].now, why in rows[0].why) == (verdict, True, True), rows
    assert bool(now) is bool(rows[0].now)
