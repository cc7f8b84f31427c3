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
