"""What a script, an image and a cluster show: one row for each condition that decides something."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import FACTS
from muster.job.request import Request
from muster.look.ask_cluster import ask_cluster
from muster.look.forks import look_at_forks
from muster.look.image_facts import _bound, _has, _look_at_venv, _made_for, _Sandbox
from muster.look.place import RunPlace, place_of
from muster.look.python_script import _spawns, look_at_python
from muster.look.squashfs import CannotBeRead
from muster.runner import ProgramResult
from muster.slurm.cluster_facts import ClusterFacts
from sites.profiles import bundled
from slurm.clusters import controller_text, kind_line, partition_line

_SPAWN = "(f, nprocs=4)\n"


@pytest.mark.parametrize(
    ("text", "words", "spawns"),
    [
        (f"import torch.multiprocessing as mp\nmp.spawn{_SPAWN}", "", True),
        (f"import torch.multiprocessing\ntorch.multiprocessing.spawn{_SPAWN}", "", True),
        (f"from torch import multiprocessing\nmultiprocessing.spawn{_SPAWN}", "", True),
        (f"from torch import multiprocessing as mp\nmp.spawn{_SPAWN}", "", True),
        (f"from torch import nn as mp\nmp.spawn{_SPAWN}", "", False),
        (f"from torch.multiprocessing import spawn\nspawn{_SPAWN}", "", True),
        (f"from torch.multiprocessing import spawn as go\ngo{_SPAWN}", "", True),
        (f"from torch.multiprocessing import Queue\nQueue.spawn{_SPAWN}", "", False),
        (f"import other as mp\nmp.spawn{_SPAWN}", "", False),
        (f"spawn{_SPAWN}", "", False),
        (f"import torch.multiprocessing as mp\nif __name__ == '__main__':\n    mp.spawn{_SPAWN}", "", True),
        (f"import torch.multiprocessing as mp\nif name == '__main__':\n    mp.spawn{_SPAWN}", "", False),
        (f"import torch.multiprocessing as mp\nif a.many:\n    mp.spawn{_SPAWN}", "--many", True),
        (f"import torch.multiprocessing as mp\nif a.many:\n    mp.spawn{_SPAWN}", "", False),
        (f"import torch.multiprocessing as mp\nif many():\n    mp.spawn{_SPAWN}", "--many", False),
        ("import torch.multiprocessing as mp\nmp.get_context('spawn')\n", "", False),
    ],
)
def test_a_script_that_starts_ranks_of_its_own_is_known(text: str, words: str, spawns: bool) -> None:
    assert bool(list(_spawns(ast.parse(text), words.split()))) is spawns


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("import jax\njax.distributed.initialize()\n", True),
        ("import jax\n", False),
        ("import other\nother.distributed.initialize()\n", False),
        ("x = (", None),
    ],
)
def test_a_script_that_asks_jax_for_its_ranks_is_known(tmp_path: Path, text: str, asks: bool | None) -> None:
    (tmp_path / "t.py").write_text(text)
    script = look_at_python(tmp_path / "t.py", "t.py", ())
    assert (script.asks_jax if script else None) is asks


def test_a_script_that_cannot_be_read_is_not_one_that_it_imports(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import a\nx = (")
    (tmp_path / "a.py").write_text("import torch\n")
    assert look_at_python(tmp_path / "t.py", "t.py", ()) is None


_VERSION = "torch/version.py"
_PACKAGES = "usr/lib/python3/dist-packages"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({f"{_PACKAGES}/{_VERSION}": "__version__ = '2.4.0+cu124'\ncuda = '12.4'\nhip = None\n"}, "cuda"),
        (
            {f"{_PACKAGES}/{_VERSION}": "__version__ = '2.4.0+cpu'\ncuda = None\nhip = None\n", "opt/rocm/lib/x": ""},
            "cpu",
        ),
        ({"opt/rocm/bin/rocminfo": ""}, "rocm"),
        ({}, None),
    ],
)
def test_an_image_is_made_for_the_gpus_of_its_torch(tmp_path: Path, files: dict[str, str], kind: str | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _made_for(_Sandbox(tmp_path)) == kind


class _Unreadable:
    def has(self, path: str) -> bool:
        raise CannotBeRead(path)


def test_what_cannot_be_read_of_an_image_is_not_there(tmp_path: Path) -> None:
    assert not _has(_Unreadable(), "a")  # type: ignore[arg-type]
    (tmp_path / "a").touch()
    assert _has(_Sandbox(tmp_path), "a")


@pytest.mark.parametrize(
    ("here", "inside", "in_image", "base_in_image"),
    [
        (True, ("bin/python", "base", "library"), False, True),
        (True, ("base",), False, False),
        (True, ("library",), False, False),
        (True, None, False, False),
        (False, ("bin/python",), True, False),
        (False, (), False, False),
    ],
)
def test_a_virtual_environment_lies_here_or_in_the_image(
    tmp_path: Path, here: bool, inside: tuple[str, ...] | None, in_image: bool, base_in_image: bool
) -> None:
    base, folder, image = tmp_path / "py", tmp_path / "env", tmp_path / "image"
    (base / "bin").mkdir(parents=True)
    (base / "bin/python3.11").touch()
    if here:
        (folder / "bin").mkdir(parents=True)
        (folder / "lib/python3.11/site-packages").mkdir(parents=True)
        (folder / "bin/python").symlink_to(base / "bin/python3.11")
        (folder / "pyvenv.cfg").write_text(f"home = {base}/bin\nversion = 3.11.4\n")
    places = {
        "bin/python": folder / "bin/python",
        "base": base / "bin/python3.11",
        "library": base / "lib/python3.11/os.py",
    }
    for name in inside or ():
        place = image / str(places[name]).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    image.mkdir(exist_ok=True)
    venv = _look_at_venv(str(folder), None if inside is None else _Sandbox(image))
    assert venv is not None
    assert (venv.in_image, venv.base_in_image) == (in_image, base_in_image)
    assert (venv.version == "3.11") is here


def test_the_folder_that_the_ranks_go_to_is_seen(tmp_path: Path) -> None:
    facts = replace(FACTS, working_directory="/w")
    for chdir, folder in ((None, "/w"), ("sub", "/w/sub"), ("/other", "/other")):
        paths = list(_bound(Request(command=(), chdir=chdir), bundled("generic"), facts, None))
        assert paths[2] == folder
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/t.py").write_text("from torch.utils.data import DataLoader\nDataLoader(d, num_workers=4)\n")
    facts = replace(FACTS, working_directory=str(tmp_path))
    for chdir, count in ((None, 0), ("sub", 1)):
        request = Request(command=("python", "t.py"), chdir=chdir)
        assert len(look_at_forks(request, facts).forking_loaders or ()) == count


@pytest.mark.parametrize(
    ("fields", "environment", "place"),
    [
        ({"here": True}, {}, RunPlace.HERE),
        ({"launcher": "local"}, {}, RunPlace.HERE),
        ({"launcher": "local"}, {"SLURM_JOB_ID": "7"}, RunPlace.HERE),
        ({}, {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}, RunPlace.WITHIN),
    ],
)
def test_where_the_ranks_start(fields: dict[str, Any], environment: dict[str, str], place: RunPlace) -> None:
    assert place_of(Request(command=(), **fields), replace(FACTS, environment=environment))[0] is place


@pytest.mark.parametrize(
    ("has_sacctmgr", "accounting", "asked"),
    [
        (True, "accounting_storage/slurmdbd", ["scontrol", "sacctmgr"]),
        (False, "accounting_storage/slurmdbd", ["scontrol"]),
        (True, "accounting_storage/none", ["scontrol"]),
    ],
)
def test_accounting_is_asked_where_there_is_some(
    tmp_path: Path, has_sacctmgr: bool, accounting: str, asked: list[str]
) -> None:
    if has_sacctmgr:
        (tmp_path / "sacctmgr").write_text("#!/bin/sh\n")
        (tmp_path / "sacctmgr").chmod(0o755)
    seen: list[str] = []
    lines = [partition_line("q", Default="YES")]
    answers = controller_text(*lines, nodes=[kind_line("q", 1)], AccountingStorageType=accounting)

    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        seen.append(argv[0])
        return ProgramResult(tuple(argv), 0, answers if argv[0] == "scontrol" else "", "")

    known = ask_cluster("ada", {"PATH": str(tmp_path)}, answer)
    assert isinstance(known, ClusterFacts)
    assert seen == asked
