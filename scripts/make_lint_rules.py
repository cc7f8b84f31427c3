"""Write docs/reference/lint-rules.md from the rules of `muster lint` and the records of their runs.

`--check` says whether the page is current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from muster_lint.rule import all_rules
from muster_lint.shown import Shown, runs_table
from muster_lint.values import Rule

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/lint-rules.md"
RECORDS = ROOT / "tests/golden/lint.txt"
HEAD = """\
# Rules of muster lint

`muster lint FILE…` looks for these {count} faults in batch scripts and in the Python scripts that they start. It runs
nothing. *breaks*: the job fails, or computes the wrong thing. *hangs*: it waits until its time limit. *slow*: it is
right, but slower than it could be. *fragile*: it works until something beside it changes. *style*: it is better
written otherwise.

Where a rule has *On a lab*, both examples were submitted with `sbatch` to a private cluster (`muster lab`, Slurm
{slurm}), with the program that stands there as `train.py`. What sbatch, the job and its tasks wrote is shown: equal
lines once, in alphabetical order, with JOB for the number of the job, node1 for its first host and PORT for the port.
What srun writes when it ends tasks is omitted. {runs} rules have such a run, the others say why they have none.
`tests/lint/test_runs.py` makes the runs again and compares."""
FOOT = """\
---

Made by `scripts/make_lint_rules.py` from `src/muster_lint/rules/`. To add a rule, add a function there, with a file
that breaks the rule and the same file as it should be, and an entry in `runs.toml` there.
"""
_TITLES = {
    "header": "The header",
    "header_values": "Values of the header",
    "sizes": "What a job holds, and what it starts",
    "unused": "What a job leaves idle",
    "output": "What Slurm writes",
    "shared": "What jobs share, and where they are submitted",
    "results": "What becomes of results",
    "loops": "What the rounds of a loop write",
    "folders": "Folders",
    "again": "Jobs that run again",
    "paths": "Paths that mean another place",
    "neighbours": "The other jobs of a node",
    "signals": "Signals",
    "step": "srun",
    "slurm_variables": "Slurm's variables",
    "status": "Failures that nobody notices",
    "checks": "Checks that change nothing",
    "failures": "Failures that the script catches",
    "agents": "torchrun, accelerate, deepspeed, mpirun",
    "programs": "What the job runs",
    "idle": "What a job holds and does not use",
    "names": "The script's own variables",
    "meeting": "Where the ranks meet",
    "shell": "The shell",
    "waiting": "Waits",
    "batch_host": "The batch host",
    "answers": "Questions that nobody answers, texts of Slurm",
    "slips": "Slips of the hand",
    "environment": "Modules, environments, containers",
    "containers": "What a container does not get",
    "fetched": "What a job fetches, and what it starts outside of itself",
    "variables": "Variables",
    "python_devices": "Python: devices",
    "python_groups": "Python: process groups and collectives",
    "python_data": "Python: data, checkpoints, seeds",
}


def page() -> str:
    """Return the whole text."""
    rules = all_rules()
    head = HEAD.format(count=len(rules), runs=len(runs_table().rules()), slurm=runs_table().slurm)
    return "\n".join([head, *_rooms(rules), *_programs(), FOOT])


def _rooms(rules: Sequence[Rule]) -> Iterator[str]:
    for room, members in groupby(rules, key=lambda rule: rule.check.__module__.rpartition(".")[2]):
        yield f"\n## {_TITLES[room]}\n"
        for rule in members:
            yield from _entry(rule)


def _entry(rule: Rule) -> Iterator[str]:
    language = "python" if rule.language == "python" else "bash"
    yield f"### {rule.name}\n"
    yield f"*{rule.severity}*: {rule.title}. {rule.why}  "
    yield f"**Instead**: {rule.instead}\n"
    yield f"```{language}\n# bad\n{_shown(rule.bad)}```\n\n```{language}\n# good\n{_shown(rule.good)}```\n"
    yield from _run(rule, runs_table().runs[rule.name])
    yield f"Source: {rule.source}\n"


def _run(rule: Rule, shown: Shown) -> Iterator[str]:
    if shown.not_run:
        yield f"**No run on a lab**: {shown.not_run}\n"
        return
    submitted = " ".join(["sbatch", *shown.options, "job.sh"]) + (", twice" if shown.copies == 2 else "")
    extra = f" Submitted with `{submitted}`." if shown.options or shown.copies > 1 else ""
    yield f"**On a lab**: {shown.says}{extra}\n"
    if rule.language == "python":
        yield "Started by the batch script [below](#the-programs-of-the-runs).\n"
    elif shown.train in runs_table().programs:
        yield f"`train.py` is [{shown.train}](#the-programs-of-the-runs).\n"
    elif shown.train:
        yield f"```python\n# train.py\n{shown.train}```\n"
    yield f"```text\n{_record(rule.name)}```\n"


def _record(name: str) -> str:
    """Return what tests/lint/test_runs.py keeps of the run of a rule; empty where the rule is new."""
    _, _, rest = f"\n{RECORDS.read_text(encoding='utf-8')}".partition(f"\n=== {name}\n")
    return rest.partition("\n===")[0]


def _programs() -> Iterator[str]:
    yield "\n## The programs of the runs\n"
    yield "The batch script of the Python rules, whose example is `train.py`:\n"
    yield f"```bash\n{runs_table().python_job}```\n"
    for name, text in runs_table().programs.items():
        yield f"*{name}*:\n\n```python\n{text}```\n"


def _shown(text: str) -> str:
    return text.replace("\r", "␍")


def main(words: Sequence[str]) -> int:
    """Write the page, or compare it."""
    if "--check" in words:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
