"""A batch script in a here-document of sbatch is read as a script, with the lines of the file that holds it."""

from __future__ import annotations

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_BODY = """#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --time=16:00:00
python train.py --conf a.cfg
echo done
"""


def _found(text: str) -> dict[str, tuple[int, str]]:
    """Return the line and the message of each rule that speaks."""
    return {each.rule: (each.place.line, each.message) for each in lint_source(source_of("run.sh", text))}


@pytest.mark.parametrize(
    "frame",
    [
        "sbatch <<EOT\n{}EOT\n",
        "sbatch << 'EOT'\n{}EOT\n",
        "id=$(sbatch --parsable <<EOT\n{}EOT\n)\necho $id\n",
        "cat << EOT | sbatch\n{}EOT\n",
        "cat << 'EOT' | sbatch --parsable\n{}EOT\n",
        "for c in a b; do\nsbatch <<EOT\n{}EOT\ndone\n",
    ],
)
def test_its_findings_have_the_lines_of_the_file(frame: str) -> None:
    text = "#!/bin/bash\n# bash run.sh CONFIG\n" + frame.format(_BODY)
    lines = text.splitlines()
    found = _found(text)
    assert lines[found["one-cpu"][0] - 1] == "#SBATCH --gres=gpu:1"
    line, message = found["status-lost-at-end"]
    assert lines[line - 1].startswith("python")
    assert f"'echo' in line {line + 1}:" in message


def test_tabs_in_front_of_it_are_taken_away_and_blanks_are_not() -> None:
    body = "".join(f"\t{line}\n" for line in _BODY.splitlines())
    assert "one-cpu" in _found(f"#!/bin/bash\nsbatch <<- EOT\n{body}EOT\n")
    blanks = body.replace("\t#SBATCH --gres", "\t  #SBATCH --gres")
    assert _found(f"#!/bin/bash\nsbatch <<- EOT\n{blanks}EOT\n")["directive-misspelt"][0] == 4


def test_a_text_that_cat_gives_to_sbatch_is_read_as_one_of_sbatch_itself() -> None:
    body = "".join(f"\t{line}\n" for line in _BODY.splitlines())
    assert "one-cpu" in _found(f"#!/bin/bash\ncat <<- EOT | sbatch\n{body}EOT\n")
    asks = _BODY.replace("#SBATCH --gres=gpu:1\n", "")
    assert _found(f"#!/bin/bash\ncat <<EOT | sbatch --gres=gpu:1\n{asks}EOT\n")["one-cpu"][0] == 2
    assert "one-cpu" not in _found(f"#!/bin/bash\nsbatch <<EOT\n{_BODY.partition(chr(10))[2]}EOT\n")
    hidden = _BODY.replace("time=", "time=$TIME")
    assert "directive-expands" in _found(f"#!/bin/bash\ncat <<'EOT' | sbatch\n{hidden}EOT\n")
    assert "directive-expands" not in _found(f"#!/bin/bash\ncat <<EOT | sbatch\n{hidden}EOT\n")


def test_options_of_the_command_line_are_those_of_the_header() -> None:
    body = _BODY.replace("#SBATCH --gres=gpu:1\n", "")
    assert _found(f"#!/bin/bash\nsbatch --gres=gpu:1 <<EOT\n{body}EOT\n")["one-cpu"][0] == 2
    assert "one-cpu" not in _found(f"#!/bin/bash\nsbatch -c 8 <<EOT\n{_BODY}EOT\n")
    assert "one-cpu" not in _found(f"#!/bin/bash\nsbatch $MORE <<EOT\n{_BODY}EOT\n")


def test_bash_fills_in_the_variables_of_an_open_text_alone() -> None:
    body = _BODY.replace("gres=", 'output="train_${1}.log"\n#SBATCH $MORE\n$LINE\n#SBATCH --gres=')
    assert "directive-expands" not in _found(f"#!/bin/bash\nsbatch <<EOT\n{body}EOT\n")
    assert "directive-after-command" not in _found(f"#!/bin/bash\nsbatch <<EOT\n{body}EOT\n")
    assert _found(f"#!/bin/bash\nsbatch <<'EOT'\n{body}EOT\n")["directive-expands"][0] == 4
    apart = _BODY.replace("python", "\n$LINE\n\npython")
    assert _found(f"#!/bin/bash\nsbatch <<EOT\n{apart}EOT\n")["status-lost-at-end"][0] == 9


def test_a_value_that_is_known_is_read() -> None:
    body = _BODY.replace("train.py", "$WHAT")
    found = _found(f"#!/bin/bash\nWHAT=train.py\nsbatch <<EOT\n{body}EOT\n")
    assert "status-lost-at-end" in found
    assert "status-lost-at-end" in _found(f"#!/bin/bash\nsbatch <<EOT\n{body.replace('$W', chr(92) + '$W')}EOT\n")
    for value in ('"a\n\nb"', "a$1"):  # of several lines, or not known: nothing stands in the place
        assert "status-lost-at-end" in _found(f"#!/bin/bash\nWHAT={value}\nsbatch <<EOT\n{body}EOT\n")


@pytest.mark.parametrize("frame", ["cat > job.sbatch <<EOT\n{}EOT\n", "cat <<EOT\n{}EOT\n", "python <<EOT\n{}EOT\n"])
def test_another_text_is_not_read(frame: str) -> None:
    assert not {"one-cpu", "status-lost-at-end"} & _found("#!/bin/bash\ndate\nsbatch x\n" + frame.format(_BODY)).keys()


def test_a_mark_in_it_silences_a_rule() -> None:
    body = _BODY.replace("gpu:1\n", "gpu:1  # muster: ignore[one-cpu] the site gives them\n")
    assert "one-cpu" not in _found(f"#!/bin/bash\nsbatch <<EOT\n{body}EOT\n")


def test_a_variable_of_the_job_that_the_submitting_shell_fills_in_is_found() -> None:
    body = _BODY.replace("a.cfg", "${SLURM_ARRAY_TASK_ID} $3")
    assert _found(f"#!/bin/bash\nsbatch --array=$1-$2 <<EOT\n{body}EOT\n")["filled-in-by-submission"][0] == 6
    for text in (
        f"sbatch <<'EOT'\n{body}EOT\n",
        f"SLURM_ARRAY_TASK_ID=3\nsbatch <<EOT\n{body}EOT\n",
        "sbatch <<EOT\n{}EOT\n".format(body.replace("${", "\\${")),
        f"#SBATCH -n 1\nsbatch <<EOT\n{body}EOT\n",
        f"sbatch <<EOT\n{_BODY}# $SLURM_JOB_ID\nEOT\n",
    ):
        assert "filled-in-by-submission" not in _found(f"#!/bin/bash\n{text}")
