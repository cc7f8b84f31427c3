"""sbatch is asked itself: what lint calls a refused value is refused, for values that nobody here chose."""

from __future__ import annotations

import random

import pytest

from muster.runner import checked
from muster_lint.look import lint_source
from muster_lint.read import source_of
from plugins.labs import Lab

_SEEN = {
    "array": ("0-9", "1,3,5", "0-9%4", "0-9:2"),
    "cpus-per-task": ("8",),
    "dependency": ("afterok:1", "afterany:1:2", "singleton"),
    "distribution": ("block:cyclic", "plane=4", "cyclic,Pack"),
    "exclusive": ("user", "mcs"),
    "gres": ("gpu:4", "gpu:a100:2", "gpu"),
    "hint": ("nomultithread", "compute_bound,multithread"),
    "kill-on-invalid-dep": ("yes", "no"),
    "mail-type": ("END,FAIL", "ALL", "TIME_LIMIT_80"),
    "mem": ("64G", "4000", "0"),
    "nodes": ("2", "1-4"),
    "ntasks-per-node": ("4",),
    "open-mode": ("append", "truncate"),
    "signal": ("USR1@300", "B:TERM@60"),
    "time": ("30", "1:00:00", "1-12", "1-00:00:00"),
}
_REFUSED = {
    "array": ("5-1", "1-3:0", "all"),
    "cpus-per-task": ("0", "8x"),
    "dependency": ("afterok", "afterok=1", "afterokay:1"),
    "exclusive": ("yes", "true"),
    "gres": ("gpu:", "gpu:1:a100", "gpus:1"),
    "hint": ("nomultithreads",),
    "mail-type": ("DONE", "FAILED"),
    "mem": ("4Gi", "4.5G", "all"),
    "nodes": ("two", "3-2"),
    "ntasks-per-node": ("0", "1k"),
    "open-mode": ("write",),
    "signal": ("USR1@60s", "@60", "SIGUSR@60"),
    "time": ("90min", "24h", "1:2:3:4"),
}
_ASK = """\
while IFS=" " read -r name value; do
    sbatch -H -J values -o /dev/null "--$name=$value" --wrap true >/dev/null 2>&1 && echo taken || echo refused
done
scancel -n values
"""


def changed_values(count: int, seed: int) -> list[tuple[str, str]]:
    """Return values that people write, each with a sign lost, doubled, added or in the other case."""
    draw = random.Random(seed)  # noqa: S311
    values: list[tuple[str, str]] = []
    while len(values) < count:
        name = draw.choice(sorted(_SEEN))
        value = draw.choice(_SEEN[name])
        at, sign = draw.randrange(len(value)), draw.choice("0159:-,=%@.GkxM")
        value = draw.choice(
            [value[:at] + value[at + 1 :], value[:at] + sign + value[at:], value + sign, value.swapcase()]
        )
        if value:
            values.append((name, value))
    return values


def is_refused_by_lint(name: str, value: str) -> bool:
    """Return whether lint says that sbatch does not take the value."""
    text = f"#!/bin/bash\n#SBATCH --{name}={value}\ndate\n"
    return any(finding.rule == "directive-value" for finding in lint_source(source_of("job.sh", text)))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _SEEN.items() for value in values])
def test_what_people_write_is_no_finding(name: str, value: str) -> None:
    assert not is_refused_by_lint(name, value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in _REFUSED.items() for value in values])
def test_a_refused_value_is_a_finding(name: str, value: str) -> None:
    assert is_refused_by_lint(name, value)


@pytest.mark.parametrize(
    ("value", "how_long"),
    [("0", "for ever"), ("23", ""), ("24", "for 8 minutes"), ("31", "for 1026 minutes"), ("32", "for ever")],
)
def test_how_long_a_broken_link_stays_silent_is_told(value: str, how_long: str) -> None:
    text = f"#!/bin/bash\n#SBATCH -N 2 -t 5\nexport NCCL_IB_TIMEOUT={value}\nsrun -K python a.py\n"
    told = [each.message for each in lint_source(source_of("job.sh", text)) if each.rule == "nccl-ib-timeout"]
    assert [message.rpartition("silent ")[2] for message in told] == [how_long] * bool(how_long)


@pytest.mark.lab
def test_sbatch_refuses_what_lint_says_that_it_refuses(lab: Lab) -> None:
    listed = [(name, value) for name, values in _REFUSED.items() for value in values]
    drawn = [each for each in changed_values(150, seed=28) if is_refused_by_lint(*each)]
    asked = [*listed, *drawn]
    assert len(drawn) > 20

    answers = checked(
        lab.exec(["sh", "-c", _ASK], stdin="".join(f"{name} {value}\n" for name, value in asked), timeout_s=300)
    ).stdout.split()

    assert dict(zip(asked, answers)) == dict.fromkeys(asked, "refused")
