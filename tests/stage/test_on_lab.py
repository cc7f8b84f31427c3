"""`muster stage` on real hosts: each copy is whole, is kept, is never a broken one; else the shared one is used."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from architecture.test_output_schema import read
from muster.runner import ProgramResult
from plugins.labs import Lab

pytestmark = pytest.mark.lab

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
FOLDER = f"/tmp/muster-stage-{os.getuid()}"  # of the hosts; each has its own /tmp


@pytest.fixture
def data(shared_directory: Path) -> Path:
    folder = shared_directory / "my data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/a.bin").write_bytes(os.urandom(1 << 20))
    (folder / "link").symlink_to("deep/a.bin")
    return folder


def inside(lab: Lab, directory: Path, script: str, nodes: int = 4) -> ProgramResult:
    words = ["salloc", "--quiet", f"--nodes={nodes}", "bash", "-c", script]
    return lab.exec(words, cwd=directory, env={"PATH": PATH})


def staged(lab: Lab, data: Path, *words: str, nodes: int = 4) -> tuple[dict[str, Any], str]:
    script = f"'{sys.executable}' -m muster stage {' '.join(words)} --json '{data}'"
    done = inside(lab, data.parent, script, nodes)
    assert done.ok, done.stderr
    read("stage", done.stdout)
    return json.loads(done.stdout), done.stderr


def chunks(data: Path) -> list[Path]:
    return [each for each in data.parent.glob(".muster-stage/*/*/0*") if each.is_file()]


def test_every_host_has_a_whole_copy_and_the_next_job_finds_it(lab: Lab, data: Path) -> None:
    told, said = staged(lab, data)
    assert told["local"], said
    assert "on 4 nodes" in said
    assert told["path"].startswith(FOLDER)
    same = f"cmp '{told['path']}/link' '{data}/deep/a.bin' && hostname"
    seen = inside(lab, data.parent, f'srun --nodes=4 sh -c "{same}"')
    assert len(set(seen.stdout.split())) == 4, seen.stderr
    for each in chunks(data):
        each.unlink()  # what is there is not fetched again
    again, said = staged(lab, data)
    assert again == told
    assert "packed" not in said


def test_a_change_of_the_original_is_brought_anew(lab: Lab, data: Path) -> None:
    first, _ = staged(lab, data, nodes=1)
    (data / "more").write_text("more")
    second, _ = staged(lab, data, nodes=1)
    assert second["path"] != first["path"]


def test_a_single_file_needs_no_unpacking(lab: Lab, data: Path) -> None:
    told, _ = staged(lab, data / "deep/a.bin", nodes=2)
    seen = inside(lab, data.parent, f"srun --nodes=2 cmp '{told['path']}' '{data}/deep/a.bin'", 2)
    assert seen.ok, seen.stderr


def test_a_copy_that_is_broken_on_its_way_is_not_used(lab: Lab, data: Path) -> None:
    """A chunk changes after its digest was taken."""
    staged(lab, data, nodes=2)
    inside(lab, data.parent, f"srun --nodes=2 rm -rf {FOLDER}", 2)
    for each in chunks(data):
        content = bytearray(each.read_bytes())
        content[len(content) // 2] ^= 1
        each.write_bytes(content)
    told, said = staged(lab, data, nodes=2)
    assert told["path"] == str(data)
    assert "differs from what was packed" in told["trouble"][0], said
    left = inside(lab, data.parent, f"srun --nodes=2 sh -c 'ls -A {FOLDER}'", 2)
    assert left.stdout == ""


def test_nodes_without_zstd_use_the_shared_copy(lab: Lab, data: Path) -> None:
    lab.exec(["mount", "--bind", "/dev/null", "/usr/bin/zstd"], host="node1")
    try:
        told, _ = staged(lab, data, nodes=1)
    finally:
        lab.exec(["umount", "/usr/bin/zstd"], host="node1")
    assert not told["local"]
    assert "node1 has no zstd to unpack it" in told["trouble"][0]


def test_a_full_disk_falls_back_to_the_shared_copy_and_leaves_nothing(new_lab: Callable[..., Lab], data: Path) -> None:
    lab = new_lab("-N", "2")
    assert lab.muster("fault", "fill-tmp", "node2").ok
    told, said = staged(lab, data, nodes=2)
    assert told["path"] == str(data)
    assert not told["local"]
    assert "node2 " in told["trouble"][0], said
    left = inside(lab, data.parent, f"srun --nodes=2 sh -c 'ls -A {FOLDER} 2>/dev/null'", 2)
    assert left.stdout == ""
    assert lab.muster("fault", "restore", "node2").ok
    # Another's folder is not trusted.
    lab.exec(["rm", "-rf", FOLDER], host="node1")
    lab.exec(["mkdir", FOLDER], host="node1", user="alice")
    told, _ = staged(lab, data, nodes=2)
    assert f"{FOLDER} on node1 belongs to another user" in told["trouble"][0]
    lab.exec(["rmdir", FOLDER], host="node1")
    # A job that ends while a slow link still carries the copy.
    (data / "large").write_bytes(os.urandom(40 << 20))
    for host in ("node1", "node2"):
        assert lab.muster("fault", "slow-link", host, "20mbit").ok
    killed = inside(
        lab, data.parent, f"(sleep 6; scancel $SLURM_JOB_ID) & '{sys.executable}' -m muster stage '{data}'", 2
    )
    assert FOLDER not in killed.stdout
    assert lab.muster("fault", "restore", "all").ok
    time.sleep(3)
    left = inside(lab, data.parent, f"srun --nodes=2 sh -c 'ls -A {FOLDER} 2>/dev/null'", 2)
    assert {name for name in left.stdout.split() if not name.startswith("job-")} == set()
    told, said = staged(lab, data, nodes=2)
    assert told["local"], said
    seen = inside(lab, data.parent, f"srun --nodes=2 cmp '{told['path']}/large' '{data}/large'", 2)
    assert seen.ok, seen.stderr
    left = inside(lab, data.parent, f"srun --nodes=2 ls -A {FOLDER}", 2)
    assert len(set(left.stdout.splitlines())) == 1, left.stdout


def test_what_nobody_uses_is_cleaned_by_its_age(lab: Lab, data: Path) -> None:
    told, _ = staged(lab, data, nodes=1)
    place = told["path"][: -len(str(data))]
    stage = f"'{sys.executable}' -m muster stage"
    script = f"srun --nodes=1 touch -d '10 days ago' '{place}'; {stage} --clean 7; srun ls -d '{place}'"
    done = inside(lab, data.parent, script, 1)
    assert "1 nodes keep what was used in the last 7 days" in done.stderr
    assert "No such file" in done.stderr


def test_without_an_allocation_it_is_refused(lab: Lab, data: Path) -> None:
    done = lab.exec([sys.executable, "-m", "muster", "stage", str(data)], cwd=data.parent, env={"PATH": PATH})
    assert done.status == 2
    assert "there is no allocation" in done.stderr
    assert "hint: type it inside salloc" in done.stderr
