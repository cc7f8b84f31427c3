"""What an administrator changes, and what becomes of the job of the site's page: held against the lab's own Slurm.

What was predicted before any plan stands in the table of `fourth_labs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import sleep

import pytest

from muster.runner import ProgramResult
from plugins.labs import Lab, Person

from .changed_labs import ChangedLab, header_of
from .fourth_labs import FIFTH_KINDS, KINDS, fifth_labs, fourth_labs, made_fourth
from .labs_as_alice import PYTHON, copy_muster, header_lines, lab_of, muster_of_alice

FOURTH = (*fourth_labs(), *fifth_labs())
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
@pytest.mark.parametrize("case", FOURTH, ids=str)
def test_what_was_predicted_holds(case: ChangedLab, tester: Person, scratch: Path, shared_directory: Path) -> None:
    folder = copy_muster(scratch / "muster-for-all")
    spec, words, typed_by_root = made_fourth(case)
    bare = header_of(words, case.site)
    kind = {**KINDS, **FIFTH_KINDS}[case.change]
    with lab_of(spec, tester) as lab:
        for typed in typed_by_root:
            assert lab.exec(typed).ok
        planned = muster_of_alice(lab, folder, "plan", "--fresh", *words, "--", "python3", "train.py")
        state = f"XDG_STATE_HOME={shared_directory / 'state'}"
        submit = ["env", state, PYTHON, "-m", "muster", "submit", *words, "--", "python3", "train.py"]
        environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        (shared_directory / "train.py").write_text("print(1)\n")
        done = lab.exec(submit, user="alice", env=environment, cwd=shared_directory)
        ours = _became(lab, done)
        theirs = _became(lab, lab.exec(["sbatch", "--parsable"], user="alice", stdin=bare, cwd=shared_directory))
    said = planned.stderr + header_lines(planned.stdout)
    everything = f"Muster: {planned.status} {said}\nsubmit: {done.status} {ours}\nthe profile alone: {theirs}"
    wanted = () if theirs.runs or kind.becomes == "unknowable" else kind.signs
    assert not wanted or any(sign in said for sign in wanted), everything
    assert not kind.shown or any(sign in said for sign in kind.shown), everything
    assert not any(word in planned.stderr for word in kind.unsaid), everything
    if kind.becomes == "runs":
        assert planned.ok, everything
        assert ours.runs, everything
    elif kind.becomes == "unknowable":
        assert planned.ok, everything
        assert done.status == 3, everything
        assert theirs.said.partition("\n")[0].removeprefix("sbatch: error: ") in done.stderr, everything
    else:
        assert not theirs.runs, everything
