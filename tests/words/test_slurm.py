"""sbatch and srun are asked themselves: which options they have, and which take the next word."""

from __future__ import annotations

import re
import string

import pytest

from muster.runner import checked
from muster.words.slurm import LETTERS_OF_SBATCH, LETTERS_OF_SRUN, SBATCH_FLAGS, SRUN_VALUED
from plugins.labs import Lab

pytestmark = pytest.mark.lab

# An option that takes the next word takes the second of these; of any other one the second is refused.
_ASK = """\
program=$1; shift
for option; do
    printf '%s\\t' "$option"
    "$program" "$option" --no-such-option </dev/null 2>&1 | tr '\\n' ' '
    echo
done
"""


def taken(lab: Lab, program: str, options: list[str]) -> dict[str, bool]:
    """Return whether each option takes the next word, of those that the program has."""
    said = checked(lab.exec(["sh", "-c", _ASK, "sh", program, *options], timeout_s=300)).stdout
    answers = dict(line.split("\t", 1) for line in said.splitlines())
    assert answers.keys() == set(options)
    missing = re.compile(r"option '(--?[\w-]+)'|invalid option -- '(\w)'")
    refused = {option: missing.search(answer) for option, answer in answers.items()}
    names = {option: found and (found[1] or f"-{found[2]}") for option, found in refused.items()}
    return {option: name != "--no-such-option" for option, name in names.items() if name != option}


def test_srun_takes_the_next_word_where_the_table_says_so(lab: Lab) -> None:
    shown = set(re.findall(r"--[a-z][a-z-]+", checked(lab.exec(["srun", "--help"])).stdout))
    options = sorted(
        (shown | SRUN_VALUED | {f"--{name}" for name in SBATCH_FLAGS}) - {"--help", "--usage", "--version"}
    )
    found = taken(lab, "srun", [*options, *(f"-{letter}" for letter in string.ascii_letters if letter not in "hV")])

    assert len(found) > 120
    assert {option for option, takes in found.items() if takes} - SRUN_VALUED == set()
    assert {option for option, takes in found.items() if not takes} & SRUN_VALUED == set()


@pytest.mark.parametrize(("program", "letters"), [("sbatch", LETTERS_OF_SBATCH), ("srun", LETTERS_OF_SRUN)])
def test_each_letter_stands_for_its_name(lab: Lab, program: str, letters: dict[str, str]) -> None:
    shown = re.findall(r"^ +-(\w),? +--([a-z-]+)", checked(lab.exec([program, "--help"])).stdout, re.MULTILINE)

    assert len(shown) > 30
    assert dict(shown).items() <= {**letters, "h": "help", "V": "version"}.items()
