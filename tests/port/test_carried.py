"""What one site names and another does not know: an image, a bound folder, the CPUs of a rank; each by a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.sites.load import load
from muster.sites.site import Site
from muster_lint.port.carry import _cpus
from muster_lint.port.carry_environment import _binds, carry_image
from muster_lint.port.target import Route
from muster_lint.port.values import Draft, Fate
from sites.profiles import bundled, written

from .scripts import read

_KEPT, _ASKED, _CHANGED, _LEFT_OUT = Fate.KEPT, Fate.ASKED, Fate.CHANGED, Fate.DROPPED


def _site(folder: Path, name: str, text: str = "") -> Site:
    return load(str(written(folder, f'muster_site = 1\nname = "{name}"\ntitle = "{name}"\n{text}', name)))


def _node(**facts: object) -> str:
    lines = "".join(f"{key} = {value!r}\n".replace("'", '"') for key, value in facts.items())
    return f'[nodes.one]\n{lines}\n[partitions.all]\nnode = "one"\ndefault = true\n'


_CUDA = {"gpus": 4, "gpu_kind": "cuda", "arch": "x86_64"}
_ROCM = {"gpus": 4, "gpu_kind": "rocm", "arch": "x86_64"}
_ARM = {"gpus": 4, "gpu_kind": "cuda", "arch": "aarch64"}


def _draft(step: str, header: str = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n") -> Draft:
    return read(f"#!/bin/bash\n{header}{step}\n")[1]


@pytest.mark.parametrize(
    ("source", "target", "image", "value", "says"),
    [
        (_CUDA, _ROCM, "/i/x.sif", "/i/x.sif", "it is made for cuda, but there has rocm"),
        (_CUDA, _ARM, "/i/x.sif", "/i/x.sif", "it is made for x86_64, but there has aarch64"),
        (_CUDA, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, {"gpus": 0, "arch": "x86_64"}, "/i/x.sif", "/i/x.sif", "bring it to there"),
        ({"gpus": 0, "arch": "x86_64"}, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, {"gpus": 4, "gpu_kind": "cuda"}, "/i/x.sif", "/i/x.sif", "bring it to there"),
        ({"gpus": 4, "gpu_kind": "cuda"}, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, None, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (None, _CUDA, "/i/x.sif", "/i/x.sif", "bring it to there"),
        (_CUDA, _CUDA, "box/", "box/", "bring it to there"),
        (_CUDA, _CUDA, "x.sqsh", "x.sqsh", "bring it to there"),
        (_CUDA, _CUDA, "pytorch", "IMAGE.sif", "pytorch is the name of an image at here"),
    ],
)
def test_an_image_is_a_file_of_one_site(
    tmp_path: Path,
    source: dict[str, object] | None,
    target: dict[str, object] | None,
    image: str,
    value: str,
    says: str,
) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    draft.values["image"] = [image]
    here, there = (
        _site(tmp_path, name, "" if facts is None else _node(**facts))
        for name, facts in (("here", source), ("there", target))
    )
    carry_image(draft, Route(here, there, None))

    row = next(row for row in draft.rows if row.field == "image")
    assert (draft.get("image"), row.verdict) == (value, _ASKED)
    assert row.why.startswith(says)


def test_an_image_of_no_known_site_is_brought(tmp_path: Path) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    carry_image(draft, Route(None, _site(tmp_path, "there", _node(**_CUDA)), None))

    assert next(row.why for row in draft.rows if row.field == "image").startswith("bring it to there")


@pytest.mark.parametrize("image", ["docker://a/b:1", "site:torch"])
def test_an_image_of_a_registry_is_no_file(tmp_path: Path, image: str) -> None:
    draft = _draft("srun apptainer exec i.sif python a.py")
    draft.values["image"] = [image]
    before = next(row for row in draft.rows if row.field == "image")
    carry_image(draft, Route(_site(tmp_path, "here"), _site(tmp_path, "there"), None))

    assert next(row for row in draft.rows if row.field == "image") == before


@pytest.mark.parametrize(
    ("path", "verdict", "kept", "says"),
    [
        ("/work/me", _ASKED, False, "a path of here"),
        ("/work", _ASKED, False, "a path of here"),
        ("/workshop", _ASKED, True, "is the path there at there?"),
        ("/usr/lib/x", _LEFT_OUT, False, "a part of here itself"),
        ("/tmp", _KEPT, True, ""),
        ("/data", _ASKED, True, "is the path there at there?"),
        ("/home/ada", _ASKED, True, "is the path there at there?"),
    ],
)
def test_a_bound_folder_is_asked_for_where_it_is_another_sites(
    tmp_path: Path, path: str, verdict: Fate, kept: bool, says: str
) -> None:
    folders = {"work": "/work/$USER", "own": "$HOME"}
    systems = "".join(
        f'[filesystems.{name}]\npath = "{place}"\nscope = "shared"\nuse = "work"\n' for name, place in folders.items()
    )
    draft = _draft(f"cd {path}\nsrun apptainer exec -B {path} i.sif python a.py")
    folder_row = next((row for row in draft.rows if row.field == "chdir"), None)
    _binds(draft, Route(_site(tmp_path, "here", systems), _site(tmp_path, "there"), None))

    row = next(row for row in draft.rows if row.field == "bind")
    assert (row.verdict, bool(draft.values.get("bind"))) == (verdict, kept)
    assert says in row.why
    assert next((row for row in draft.rows if row.field == "chdir"), None) == folder_row


@pytest.mark.parametrize(
    ("node", "header", "value", "verdict"),
    [
        ({**_CUDA, "cores": 64, "cores_per_gpu": 16}, "--gpus-per-node=4", None, _LEFT_OUT),
        ({**_CUDA, "cores": 64}, "--gpus-per-node=4\n#SBATCH --ntasks-per-node=4", "16", _CHANGED),
        ({**_CUDA, "cores": 64}, "--gpus-per-node=4", "40", _KEPT),
        ({"cores": 64, "cores_per_gpu": 16}, "--ntasks-per-node=2", "32", _CHANGED),
        ({"cores": 64}, "--ntasks-per-node=2", "32", _CHANGED),
        ({"cores": 128}, "--ntasks-per-node=2", "40", _KEPT),
        ({"cores": 80}, "--ntasks-per-node=2", "40", _KEPT),
        ({"cores": 1}, "--ntasks-per-node=2", "1", _CHANGED),
        ({"gpus": 4}, "--ntasks-per-node=2", "40", _KEPT),
        (None, "--ntasks-per-node=2", "40", _KEPT),
    ],
)
def test_a_rank_has_its_share_of_the_cores_of_the_other_node(
    tmp_path: Path, node: dict[str, object] | None, header: str, value: str | None, verdict: Fate
) -> None:
    text = f"#SBATCH --nodes=2\n#SBATCH {header}\n#SBATCH --cpus-per-task=40\n"
    draft = _draft("srun python a.py", text)
    there = _site(tmp_path, "there", "" if node is None else _node(**node))
    _cpus(draft, Route(bundled("generic"), there, None))

    assert draft.get("cpus_per_task") == value
    assert next(row.verdict for row in draft.rows if row.field == "cpus_per_task") == verdict
