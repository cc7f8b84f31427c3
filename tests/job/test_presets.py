"""How the presets start their programs: the words that each node of a Ray gets. No Ray is needed: sh runs the text."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.job.presets import PRESET_TABLE

FOLDER = Path(f"/tmp/ray-t{os.getpid()}-ray")
"""The preset names it after the job and the role; a short one, for Ray's sockets lie in it."""


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Path]:
    """A folder with a program that is called ray, and says what it was given."""
    ray = tmp_path / "ray"
    ray.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@"\necho "$RAY_AUTH_MODE $RAY_AUTH_TOKEN $RAY_TMPDIR"\n'
        'stat -c %a "${RAY_TMPDIR%/t}"\nexit 7\n'
    )
    ray.chmod(0o755)
    yield tmp_path
    shutil.rmtree(FOLDER, ignore_errors=True)


def start(
    programs: Path, rank: int, *words: str, name: str = "ray", **variables: str
) -> subprocess.CompletedProcess[str]:
    """What the preset starts on one node of a job."""
    given = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "RANK": str(rank),
        "MASTER_ADDR": "localhost",
        "MUSTER_JOB": f"t{os.getpid()}",
        "MUSTER_ROLE": "ray",
        "MUSTER_ROLE_KEY": "secret",
        "MUSTER_ROLE_PORT": "21000",
        "MUSTER_GPUS": "2",
        "SLURM_CPUS_ON_NODE": "8",
        **variables,
    }
    argv = ["sh", "-c", PRESET_TABLE[name].text, name, *words]
    return subprocess.run(argv, env=given, capture_output=True, text=True, timeout=60, check=False)


def test_the_head_of_a_ray_has_ports_a_folder_and_a_token_of_its_own(programs: Path) -> None:
    ended = start(programs, 0, "--object-store-memory=9", SLURM_CPUS_PER_TASK="3")
    words = ended.stdout.splitlines()
    ports = {word.split("=")[1] for word in words if "port=" in word}

    assert ended.returncode == 7, "the status is Ray's"
    assert {"--head", "--block", "--port=21000", f"--temp-dir={FOLDER}/t", "--num-cpus=3", "--num-gpus=2"} <= set(words)
    assert ports - {"21008"} == {"0", *(str(21000 + place) for place in range(8))}, "the last one needs grpcio"
    assert words.index("--object-store-memory=9") == max(
        place for place, word in enumerate(words) if word.startswith("--")
    )
    assert f"token secret {FOLDER}/t" in words
    assert words[-1] == "700", "Ray makes its own folder open to all"
    assert not FOLDER.exists()


def test_a_worker_joins_the_head_of_its_job(programs: Path) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        port = head.getsockname()[1]
        words = start(programs, 1, MUSTER_ROLE_PORT=str(port)).stdout.splitlines()

    assert f"--address=localhost:{port}" in words
    assert f"--node-manager-port={port + 1}" in words
    assert "--num-cpus=8" in words
    assert not {"--head", f"--port={port}"} & set(words)


def test_a_folder_that_lies_elsewhere_is_refused(programs: Path) -> None:
    FOLDER.symlink_to(programs)
    ended = start(programs, 0)
    FOLDER.unlink()

    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"role ray: {FOLDER} on " in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: root alone makes a folder of somebody else")
def test_a_folder_of_somebody_else_is_refused(programs: Path) -> None:
    FOLDER.mkdir()
    os.chown(FOLDER, 1, 1)
    ended = start(programs, 0)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert "belongs to somebody else" in ended.stderr


def test_a_folder_of_the_start_before_is_taken(programs: Path) -> None:
    FOLDER.mkdir()

    assert start(programs, 0).returncode == 7


def test_a_worker_that_is_told_to_end_while_it_waits_leaves_no_folder(programs: Path) -> None:
    (programs / "python3").write_text(f"#!/bin/sh\ntest -d {FOLDER} && kill -TERM $PPID\nexit 1\n")
    (programs / "python3").chmod(0o755)

    assert start(programs, 1).returncode == 0
    assert not FOLDER.exists()


@pytest.mark.parametrize(("begins", "status", "tries"), [("no", 1, 5), ("second", 1, 2), ("first", 1, 1), ("no", 7, 1)])
def test_a_ray_that_does_not_start_has_five_tries_and_one_that_started_has_one(
    programs: Path, begins: str, status: int, tries: int
) -> None:
    said = programs / "tries"
    log = f"{FOLDER}/t/session_latest/logs"
    opened = {"no": 9, "second": 2, "first": 1}[begins]
    (programs / "ray").write_text(
        f'#!/bin/sh\necho "${{RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S-30}}" >>{said}\n'
        f'[ "$(wc -l <{said})" -lt {opened} ] || {{ mkdir -p {log}; : >{log}/ray_process_exit.log; }}\nexit {status}\n'
    )
    ended = start(programs, 0)

    assert ended.returncode == status
    assert said.read_text().split() == ["0"] * tries, "Ray waits for no other node at its end"
    assert ended.stderr.count("Ray did not start on") == (5 if tries == 5 else tries - 1)
    assert not FOLDER.exists()


@pytest.mark.parametrize("name", ["ray", "dask"])
def test_a_program_that_is_told_to_end_leaves_no_folder_and_does_not_fail(programs: Path, name: str) -> None:
    # srun kills all tasks of a step at the first status other than 0: the folders of the others would stay.
    for program in ("ray", "dask"):
        text = f"#!/bin/sh\n[ $1 = scheduler ] || kill -TERM $PPID\n{shutil.which('sleep')} 0.3\nexit 1\n"
        (programs / program).write_text(text)
        (programs / program).chmod(0o755)
    (programs / "t").mkdir()

    assert start(programs, 0, name=name, TMPDIR=str(programs / "t")).returncode == 0
    assert not FOLDER.exists()
    assert not list((programs / "t").iterdir())
