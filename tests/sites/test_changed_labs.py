"""A site has changed since its documents were read: the plan follows the cluster, and names the change.

The oracle is the lab's own Slurm. Of the first sets, what Muster plans there `sbatch --test-only` takes, and what
Muster refuses there it refuses of the script that rests on the profile alone. Where something was predicted, both jobs
are sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import sleep

import pytest

from muster.runner import ProgramResult
from plugins.labs import Lab, Person

from .changed_labs import (
    CHANGES,
    NUMBER,
    SECOND_NUMBER,
    THIRD_NUMBER,
    ChangedLab,
    changed_labs,
    header_of,
    second_labs,
    third_labs,
)
from .labs_as_alice import PYTHON, copy_muster, header_lines, lab_of, muster_of_alice, would_take
from .predicted_labs import KINDS, Kind, made, predicted_labs

LABS = tuple(changed_labs())
SECOND = tuple(second_labs())
THIRD = tuple(third_labs())
PREDICTED = tuple(predicted_labs())
# What the plan shows of a change that Slurm takes either way.
SHOWN = {"preempting": "--requeue", "little-memory": "--mem", "reservation": "reserved (maintenance)"}


def test_the_changes_are_drawn_evenly() -> None:
    assert len(LABS) == NUMBER
    assert len({lab.site for lab in LABS}) == 20
    assert {lab.change for lab in LABS} == set(CHANGES)
    assert len({str(lab) for lab in SECOND}) == SECOND_NUMBER
    assert len({lab.site for lab in PREDICTED}) == 38
    assert len({lab.change for lab in PREDICTED}) == len(PREDICTED) == 100
    assert len({lab.site for lab in THIRD}) == len({lab.change for lab in THIRD}) == THIRD_NUMBER


_COMES_SOON = {"None", "Priority", "Resources", "BeginTime", ""}


@dataclass(frozen=True)
class Sent:
    """What became of a script that was sent to Slurm."""

    said: str
    state: str
    reason: str

    @property
    def runs(self) -> bool:
        return self.state != "" and (self.state != "PENDING" or self.reason in _COMES_SOON)


def _became(lab: Lab, sent: ProgramResult) -> Sent:
    """What the newest job of alice became; then it is cancelled."""
    state, reason = "", ""
    for _ in range(60 if sent.ok else 0):
        newest = ["squeue", "-a", "-h", "-t", "all", "-u", "alice", "-S", "-i", "-o", "%T %r"]
        state, _, reason = lab.exec(newest).stdout.partition("\n")[0].partition(" ")
        if state != "PENDING" or reason not in _COMES_SOON:
            break
        sleep(0.25)
    lab.exec(["scancel", "-u", "alice"])
    for _ in range(60):
        if not lab.exec(["squeue", "-a", "-h", "-u", "alice"]).stdout:
            break
        sleep(0.25)
    return Sent(sent.stderr, state, reason)


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("case", [*LABS, *SECOND, *THIRD, *PREDICTED], ids=str)
def test_the_plan_follows_the_cluster_and_names_the_change(
    case: ChangedLab, tester: Person, scratch: Path, shared_directory: Path
) -> None:
    if case.change == "one-node-down":
        pytest.xfail("the change was not seen to touch the nodes of this lab's job")
    folder = copy_muster(scratch / "muster-for-all")
    spec, words, typed_by_root = made(case)
    bare = header_of(words, case.site)
    is_beyond = case.change in KINDS and KINDS[case.change].is_beyond_the_profile
    assert (bare is None) == is_beyond
    (shared_directory / "train.py").write_text("print(1)\n")
    with lab_of(spec, tester) as lab:
        for typed in typed_by_root:
            assert lab.exec(typed).ok
        planned = muster_of_alice(lab, folder, "plan", "--fresh", *words, "--", "python3", "train.py")
        if case.change in KINDS:
            state = ("env", f"XDG_STATE_HOME={shared_directory / 'state'}")
            submit = [*state, PYTHON, "-m", "muster", "submit", *words, "--", "python3", "train.py"]
            environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
            done = lab.exec(submit, user="alice", env=environment, cwd=shared_directory)
            ours = _became(lab, done)
            theirs = Sent("", "", "")
            if bare is not None:
                theirs = _became(
                    lab, lab.exec(["sbatch", "--parsable"], user="alice", stdin=bare, cwd=shared_directory)
                )
            _hold_prediction(KINDS[case.change], planned, done, ours, theirs)
        elif bare is not None:
            _hold_trial(case, planned, would_take(lab, bare), would_take(lab, planned.stdout))


def _hold_trial(case: ChangedLab, planned: ProgramResult, bare: ProgramResult, taken: ProgramResult) -> None:
    """What sbatch's trial says of the script that rests on the profile alone, and of Muster's."""
    named = planned.stderr + header_lines(planned.stdout)
    if planned.ok:
        is_told = any(words in planned.stderr for words in ("is closed to this job", "the job waits"))
        assert taken.ok or is_told, f"Slurm: {taken.stderr}\nMuster: {named}"
        assert SHOWN.get(case.change, "") in named
    else:
        assert not bare.ok, f"Slurm takes what Muster refuses: {planned.stderr}"
    assert bare.ok or "what Slurm says here" in planned.stderr, planned.stderr
    assert bare.ok or not case.signs or any(sign in named for sign in case.signs), named


def _hold_prediction(kind: Kind, planned: ProgramResult, done: ProgramResult, ours: Sent, theirs: Sent) -> None:
    """What was predicted before any plan, and what became of both jobs."""
    said = planned.stderr + header_lines(planned.stdout)
    everything = f"Muster: {planned.status} {said}\nsubmit: {done.status} {ours}\nthe profile alone: {theirs}"
    told = "\n".join(line for line in planned.stderr.splitlines() if "warning: " in line or "error: " in line)
    wanted = () if theirs.runs or kind.becomes == "unknowable" else kind.signs
    assert not wanted or any(sign in (said if kind.becomes == "runs" else told) for sign in wanted), everything
    assert not kind.shown or any(sign in said for sign in kind.shown), everything
    assert not any(word in planned.stderr for word in kind.unsaid), everything
    if kind.becomes == "runs":
        assert planned.ok, everything
        assert ours.runs, everything
        return
    if kind.becomes == "follows" and planned.ok:
        assert ours.runs, everything
        return
    if kind.becomes == "unknowable":
        assert done.status == 3, everything
        reason = theirs.said.partition("\n")[0].removeprefix("sbatch: error: ")
        assert reason.removeprefix("Batch job submission failed: ") in done.stderr, everything
    assert not theirs.runs, everything
    assert planned.ok or kind.becomes != "unknowable", everything
    if kind.becomes == "waits":
        assert "the job waits" in planned.stderr or (kind.is_of_partition and not planned.ok), everything
        assert ours.state == "PENDING" or kind.is_of_partition, everything
    elif kind.becomes == "refused":
        assert not planned.ok or "is closed to this job" in planned.stderr, everything
