"""On four real hosts: the copy of each is whole, is kept, is never a broken one, and else the shared one is used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.act.runner import Result
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


def inside(lab: Lab, directory: Path, script: str, nodes: int = 4) -> Result:
    words = ["salloc", "--quiet", f"--nodes={nodes}", "sh", "-c", script]
    return lab.exec(words, cwd=directory, env={"PATH": PATH})


def staged(lab: Lab, data: Path, *words: str, nodes: int = 4) -> tuple[dict[str, Any], str]:
    script = f"python -m muster stage {' '.join(words)} --json '{data}'"
    done = inside(lab, data.parent, script, nodes)
    assert done.ok, done.stderr
    return json.loads(done.stdout), done.stderr


def test_every_host_has_a_whole_copy_and_the_next_job_finds_it(lab: Lab, data: Path) -> None:
    told, said = staged(lab, data)
    assert told["local"], said
    assert "to 4 of 4 nodes" in said
    assert told["path"].startswith(FOLDER)
    same = f"cmp '{told['path']}/link' '{data}/deep/a.bin' && hostname"
    seen = inside(lab, data.parent, f'srun --nodes=4 sh -c "{same}"')
    assert len(set(seen.stdout.split())) == 4, seen.stderr
    again, said = staged(lab, data)
    assert again == told
    assert "bringing" not in said
    assert "packing" not in said


def test_a_change_of_the_original_is_brought_anew(lab: Lab, data: Path) -> None:
    first, _ = staged(lab, data, nodes=1)
    (data / "more").write_text("more")
    second, _ = staged(lab, data, nodes=1)
    assert second["path"] != first["path"]


def test_a_copy_that_is_broken_on_its_way_is_not_used(lab: Lab, data: Path) -> None:
    """The archive changes after its digest was taken."""
    staged(lab, data, nodes=1)
    (data / "more").write_text("x")
    script = (
        f"python -m muster stage --quiet '{data}' >/dev/null && rm -rf {FOLDER}; "
        f"for a in '{data.parent}'/.muster-stage/*.zst; do echo bad >>\"$a\"; done; "
        f"srun --nodes=1 rm -rf {FOLDER}; python -m muster stage --json '{data}'"
    )
    done = inside(lab, data.parent, script, 1)
    told = json.loads(done.stdout)
    assert told["path"] == str(data)
    assert "is not what was sent" in told["trouble"][0]


def test_a_full_disk_falls_back_to_the_shared_copy_and_leaves_nothing(new_lab: Callable[..., Lab], data: Path) -> None:
    lab = new_lab("-N", "2")
    assert lab.muster("fault", "fill-tmp", "node2").ok
    told, said = staged(lab, data, nodes=2)
    assert told["path"] == str(data)
    assert not told["local"]
    assert "node2 does not take the archive" in said
    left = inside(lab, data.parent, f"srun --nodes=2 sh -c 'ls -A {FOLDER} 2>/dev/null'", 2)
    assert left.stdout == ""


def test_what_nobody_uses_is_cleaned_by_its_age(lab: Lab, data: Path) -> None:
    told, _ = staged(lab, data, nodes=1)
    place = Path(told["path"]).parent
    script = f"srun --nodes=1 touch -d '10 days ago' {place}; python -m muster stage --clean 7; srun ls -d {place}"
    done = inside(lab, data.parent, script, 1)
    assert "No such file" in done.stderr


def test_without_an_allocation_it_is_refused(lab: Lab, data: Path) -> None:
    done = lab.exec(["python", "-m", "muster", "stage", str(data)], cwd=data.parent, env={"PATH": PATH})
    assert done.status == 2
    assert "there is no allocation" in done.stderr
    assert "hint: type it inside salloc" in done.stderr
