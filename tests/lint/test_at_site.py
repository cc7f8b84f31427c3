"""What is found in a header at one site: names that its profile does not list, and what it refuses, at their places."""

from __future__ import annotations

import pytest

from muster_lint.bash import read_shell
from muster_lint.launch import launches_of
from muster_lint.look import lint_source
from muster_lint.read import source_of
from sites.profiles import bundled

_HEAD = "#!/bin/bash\n#SBATCH -A project_465000000\n#SBATCH -t 30\n#SBATCH -N 2\n"


@pytest.mark.parametrize(
    ("line", "rule", "place"),
    [
        ("#SBATCH -p nonesuch\n", "site-unknown-partition", (5, 9)),
        ("#SBATCH -p standard-g\n", None, None),
        ("#SBATCH -p standard-g\n#SBATCH --gpus-per-node=v100:4\n", "site-unknown-gpu-type", (6, 9)),
        ("#SBATCH -p standard-g\n#SBATCH --gres=gpu:v100:4\n", "site-unknown-gpu-type", (6, 9)),
    ],
)
def test_a_name_that_a_site_does_not_list_is_found_at_its_place(
    line: str, rule: str | None, place: tuple[int, int] | None
) -> None:
    found = lint_source(source_of("job.sh", f"{_HEAD}{line}srun true\n"), bundled("lumi"))
    unknown = {each.rule: (each.place.line, each.place.column) for each in found if "unknown" in each.rule}
    assert unknown == ({rule: place} if rule else {})


_START = "torchrun --nnodes 2 train.py"


@pytest.mark.parametrize(
    ("lines", "starts"),
    [
        (f'CMD="{_START}"\nsrun bash -c "$CMD"\n', True),
        (f'CMD="{_START}"\nsrun bash -c "${{CMD}}"\n', True),
        (f"CMD='{_START}'\nsrun bash -c \"$CMD\"\n", True),
        (f'srun bash -c "$CMD"\nCMD="{_START}"\n', False),
        (f'if x; then CMD="{_START}"; fi\nsrun bash -c "$CMD"\n', False),
        (f'CMD="{_START}"\nCMD="echo"\nsrun bash -c "$CMD"\n', False),
        (f'CMD="{_START} $(hostname)"\nsrun bash -c "$CMD"\n', False),
    ],
)
def test_a_command_that_a_variable_holds_is_read_where_it_certainly_does(lines: str, starts: bool) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\n" + lines
    assert any("torchrun" in str(each) for each in launches_of(read_shell(text))) is starts
