"""Conda environments go into an image through the real cotainr, as far as that comes without its download."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from build.places import Place
from build.small_registry import SmallRegistry, small_registry
from muster.errors import CommandFailed, MachineLacks, RequestError
from muster_build.cotainr import CondaOrder, add_conda, judge_conda
from muster_build.engine import Builder

ENVIRONMENT = """\
name: train
channels:
  - conda-forge
dependencies:
  - python=3.11.9=hb806964_0_cpython
  - numpy=1.26
  - pip
  - pip:
      - torch==2.7.1+rocm6.3
      - tqdm
"""
BASE = "docker://registry.example.org/base:1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "env.yml"
    made.write_text(ENVIRONMENT)
    return made


def test_what_is_not_pinned_is_named(file: Path) -> None:
    said: list[str] = []
    judge_conda(CondaOrder(file, accepts_licenses=True, gpu_kind="rocm"), BASE, said.append)
    assert said == [
        "warning: not pinned, so the next build may install other versions: pip, tqdm",
        "from pip, and conda-forge has it too, by its list of 2026-08-19: tqdm",
    ]


@pytest.mark.parametrize(
    ("base", "change", "says"),
    [
        (BASE, {"gpu_kind": "cuda"}, "packages for other GPUs than cuda: torch==2.7.1+rocm6.3"),
        (BASE, {"accepts_licenses": False}, "licence is yours to accept"),
        (BASE, {"system": "lumi-g"}, "needs one base image"),
        (None, {}, "needs one base image"),
        ("docker://docker.io/continuumio/miniconda3:24.1.2-0", {}, "has a conda of its own"),
        (BASE, {"file": Path("/nowhere/env.yml")}, "cannot be read"),
        (BASE, {"file": Path("/dev/null")}, "lists no packages"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_fetched(
    file: Path, base: str | None, change: dict[str, object], says: str
) -> None:
    order = CondaOrder(**{"file": file, "accepts_licenses": True, **change})  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=re.escape(says)) as refused:
        judge_conda(order, base, lambda _: None)
    assert refused.value.hint


def test_without_cotainr_the_way_to_it_is_said(file: Path, tmp_path: Path) -> None:
    builder = Builder("apptainer", tmp_path / "cache", {"PATH": "/nowhere"})
    with pytest.raises(MachineLacks, match="cotainr is not on PATH"):
        add_conda(builder, tmp_path / "x.sif", CondaOrder(file), BASE, lambda _: None)


@pytest.mark.wide
def test_the_real_cotainr_unpacks_the_base_and_what_it_cannot_fetch_is_one_sentence(
    place: Place, open_registry: SmallRegistry
) -> None:
    """Its download of Miniforge is turned away by a proxy that is not there: nothing half-built stays."""
    (place.folder / "env.yml").write_text(ENVIRONMENT)
    # cotainr asks its base for the machine; the small image has a shell and no more.
    (place.folder / "uname").write_text("#!/bin/sh\necho x86_64\n")
    (place.folder / "uname").chmod(0o755)
    base = place.muster("image", "--from", open_registry.image, "--copy", "uname:/bin/uname", "-o", "base.sif")
    assert base.ok, base.stderr
    before = place.left()
    words = ("image", "--from", "base.sif", "--conda", "env.yml", "--accept-licenses", "-o", "x.sif")
    path = f"{place.program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    built = place.muster(*words, PATH=path, https_proxy="http://127.0.0.1:9", HTTPS_PROXY="http://127.0.0.1:9")
    assert built.status == 3, built.stderr
    assert "muster: error: Miniforge, which cotainr installs, could not be fetched" in built.stderr
    assert "urlopen error" in built.stderr, "it came as far as its download"
    assert place.left() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("docker://{host}/small:2", "the registry has no image {host}/small:2"),
        ("docker://{host}/small:1", "has a conda of its own (CONDA_PREFIX=/opt/conda)"),
        ("box", "has a conda of its own (/opt/conda/bin/conda)"),
    ],
)
def test_a_base_that_is_gone_or_has_a_conda_is_named_before_anything_is_pulled(
    place: Place, words: str, sentence: str
) -> None:
    (place.folder / "env.yml").write_text(ENVIRONMENT)
    (place.folder / "box/opt/conda/bin").mkdir(parents=True)
    (place.folder / "box/opt/conda/bin/conda").touch()
    (place.folder / "box/bin").mkdir()
    before = place.left()
    busybox = place.program.with_name("busybox")
    with small_registry(busybox, environment=("PATH=/bin", "CONDA_PREFIX=/opt/conda")) as registry:
        source = words.format(host=registry.host)
        order = ("--conda", "env.yml", "--accept-licenses", "-o", "x.sif")
        refused = place.muster("image", "--from", source, *order)
        assert not any(registry.layer in path for path in registry.asked)
    assert refused.status == 2, refused.stderr
    assert sentence.format(host=registry.host) in refused.stderr
    assert place.left() == before


def test_options_of_conda_without_it_are_refused(place: Place) -> None:
    refused = place.muster("image", "--from", "docker://x/y:1", "--accept-licenses", "-o", "x.sif")
    assert refused.status == 2
    assert "go with --conda" in refused.stderr


def test_a_failure_that_nobody_knows_shows_its_last_words(file: Path, tmp_path: Path) -> None:
    program = tmp_path / "cotainr"
    program.write_text("#!/bin/sh\necho 'something new' >&2\nexit 4\n")
    program.chmod(0o755)
    builder = Builder("apptainer", tmp_path / "cache", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(CommandFailed, match="built nothing: something new"):
        add_conda(builder, tmp_path / "x.sif", CondaOrder(file), BASE, lambda _: None)
