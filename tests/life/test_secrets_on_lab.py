"""While a job runs, nobody else reads its secrets: not in /proc, not in a file, not from Slurm; in every verb."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from launch.lab_runs import path_with, wait_for_files, wait_until_ended
from muster.runner import checked
from plugins.labs import MUSTER, Lab

pytestmark = pytest.mark.lab

VALUE = "hf_s3cr3tValue-of-a-test"
# A rank says that it is there, what it was given, and waits until it is let go.
_RANK = """\
umask 077
printf '%s %s' "$HF_TOKEN" "$API_KEY" >"there.$RANK.new" && mv "there.$RANK.new" "there.$RANK"
for _ in $(seq 600); do [ ! -e go ] || exit 0; sleep 0.1; done
"""


def _argv_with_secret() -> list[bytes]:
    return _argv_with(VALUE.encode())


def _argv_with(text: bytes) -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if text in words:
            found.append(words.replace(b"\0", b" ")[:200])
    return found


def _files_with_secret(lab: Lab, folder: Path) -> list[str]:
    """What another user finds."""
    said = lab.exec(["grep", "-rlF", "--", VALUE, str(folder)], user="bob").stdout.splitlines()
    return [path for path in said if not path.endswith("/start.sh")]


def _start(lab: Lab, folder: Path, *words: str) -> subprocess.Popen[str]:
    """Type the words in a shell that has the secrets: one of them in its environment, one on the command line."""
    (folder / "rank.sh").write_text(_RANK)
    typed = folder / "start.sh"
    line = " ".join(f"'{word}'" for word in words)
    typed.write_text(f"exec '{MUSTER}' {line.replace('TYPED', VALUE)}\n")
    typed.chmod(0o700)
    env = lab.person.environment({"HF_TOKEN": VALUE, "PATH": path_with()})
    return subprocess.Popen(lab.argv(["sh", str(typed)]), env=env, cwd=folder, stdout=-1, stderr=-1, text=True)


_GIVEN = ("--env", "HF_TOKEN", "--env", "API_KEY=TYPED")
_TWO = ("-N", "2", "--ntasks-per-node", "1")
_RANKS = ("--", "sh", "rank.sh")
_STARTS: dict[str, tuple[Sequence[str], int]] = {
    "run srun": (("run", *_TWO, *_GIVEN, *_RANKS), 2),
    "run mpirun": (("run", *_TWO, "--launcher", "mpirun", *_GIVEN, *_RANKS), 2),
    "run here": (("run", "--here", "--ntasks-per-node", "2", *_GIVEN, *_RANKS), 2),
    "submit": (("submit", *_TWO, *_GIVEN, *_RANKS), 2),
    "submit -o": (("submit", *_TWO, "-o", "out.txt", *_GIVEN, *_RANKS), 2),
    "submit torchrun": (("submit", *_TWO, "--launcher", "torchrun", *_GIVEN, *_RANKS), 2),
    "submit array": (("submit", "--sbatch=--array=0-1", *_GIVEN, *_RANKS), 1),
    "shell": (("shell", *_GIVEN, "--", "sh", "-c", "RANK=0 exec sh rank.sh"), 1),
}


@pytest.mark.parametrize("how", _STARTS)
def test_nobody_else_reads_them_while_the_job_runs(lab: Lab, shared_directory: Path, how: str) -> None:
    words, count = _STARTS[how]
    process = _start(lab, shared_directory, *words)
    try:
        there = wait_for_files(shared_directory, "there.[0-9]", count)
        argv = _argv_with_secret()
        files = _files_with_secret(lab, shared_directory)
        jobs = checked(lab.exec(["scontrol", "show", "job", "--details"])).stdout
    finally:
        (shared_directory / "go").touch()
        out, err = process.communicate(timeout=60)

    assert {path.read_text() for path in there} == {f"{VALUE} {VALUE}"}
    assert argv == []
    assert files == []
    assert VALUE not in jobs + out + err
    if how.startswith("submit"):
        for job in [f"{out.strip()}_{task}" for task in (0, 1)] if how == "submit array" else [out.strip()]:
            wait_until_ended(lab, job)
        left = subprocess.run(["grep", "-rlF", VALUE, str(shared_directory / "muster-runs")], check=False, stdout=-1)
        assert left.stdout == b""  # nor the job's owner
        assert "HF_TOKEN, API_KEY" in err


@pytest.mark.parametrize("verb", ["bench", "check"])
def test_verbs_that_launch_by_themselves_pass_names_alone(lab: Lab, shared_directory: Path, verb: str) -> None:
    words = ("bench", "--submit", "-N", "1") if verb == "bench" else ("check", "-N", "2")
    process = _start(lab, shared_directory, *words, *_GIVEN)
    seen: set[bytes] = set()
    while process.poll() is None:
        seen.update(each for each in _argv_with_secret() if "API_KEY=" not in each.decode())
    out, err = process.communicate()

    assert seen == set()
    assert VALUE not in out + err
    assert _files_with_secret(lab, shared_directory) == []


def test_a_rehearsal_and_a_look_at_a_site_hand_their_script_over_unseen(lab: Lab, shared_directory: Path) -> None:
    (shared_directory / "rank.sh").write_text("sleep 2\n")
    rehearsal = ("run", "--rehearse", "--site", "generic", "-t", "5", *_TWO, "--ranks", "2", *_GIVEN, *_RANKS)
    env = lab.person.environment({"HF_TOKEN": VALUE, "PATH": path_with()})
    words = [MUSTER, *(word.replace("TYPED", VALUE) for word in rehearsal)]
    (shared_directory / "start.sh").write_text(f"exec '{MUSTER}' site check generic --job\n")
    for argv, sentence in (
        (words, "ran to its end with 2 ranks"),
        (lab.argv(["sh", "start.sh"]), "what could be asked of generic holds"),
    ):
        process = subprocess.Popen(argv, env=env, cwd=shared_directory, stdout=-1, stderr=-1, text=True)
        seen: set[bytes] = set()
        jobs: set[bytes] = set()
        while process.poll() is None:
            seen.update(_argv_with(f"muster_begin dir={shared_directory}".encode()))
            seen.update(each for each in _argv_with_secret() if b"API_KEY=" not in each)
            jobs.update(each for each in _argv_with(b"bash\0/dev/fd/") if b"salloc" in each)
        out, err = process.communicate()

        assert seen == set()
        assert jobs, out + err  # a script was handed over at all
        assert process.returncode == 0, err
        assert sentence in out + err
        assert VALUE not in out + err


def test_a_build_as_a_job_passes_names_alone(lab: Lab, shared_directory: Path) -> None:
    words = ("build", "venv", "made", "--job", "--job-option=--env=HF_TOKEN", "--job-option=--env=API_KEY=TYPED")
    process = _start(lab, shared_directory, *words)
    seen: set[bytes] = set()
    found: set[str] = set()
    while process.poll() is None:
        seen.update(each for each in _argv_with_secret() if b"API_KEY=" not in each)
        found.update(_files_with_secret(lab, shared_directory))
    out, err = process.communicate()

    assert (seen, found) == (set(), set())
    assert VALUE not in out + err
