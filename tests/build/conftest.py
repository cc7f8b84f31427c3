"""A real Apptainer, registries on loopback, and places to build in, for whoever runs the tests and an ordinary user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from build.places import PASSWORD, Ordinary, Place
from build.small_registry import SmallRegistry, small_registry
from muster.errors import CommandFailed, MachineLacks
from muster_lab.apptainer import apptainer_cache, prepared_apptainer, relocated
from plugins.labs import Person


@pytest.fixture(scope="session")
def apptainer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        packages = prepared_apptainer(apptainer_cache(os.environ), lambda _: None)
    except (MachineLacks, CommandFailed) as error:
        pytest.skip(f"Apptainer is missing: {error.message}")
    return relocated(packages, tmp_path_factory.mktemp("engine") / "apptainer")


@pytest.fixture
def place(tmp_path: Path, apptainer: Path) -> Place:
    return Place(tmp_path, apptainer)


@pytest.fixture(scope="session")
def open_registry(apptainer: Path) -> Iterator[SmallRegistry]:
    with small_registry(apptainer.with_name("busybox")) as registry:
        yield registry


@pytest.fixture(scope="session")
def closed_registry(apptainer: Path) -> Iterator[SmallRegistry]:
    with small_registry(apptainer.with_name("busybox"), PASSWORD) as registry:
        yield registry


@pytest.fixture(scope="session")
def engine_for_all(scratch: Path) -> Path:
    """An Apptainer that every user and every host of a lab can start."""
    try:
        packages = prepared_apptainer(apptainer_cache(os.environ), lambda _: None)
    except (MachineLacks, CommandFailed) as error:
        pytest.skip(f"Apptainer is missing: {error.message}")
    return relocated(packages, scratch / "build-engine")


@pytest.fixture
def user(ordinary_person: Person, engine_for_all: Path, open_registry: SmallRegistry) -> Ordinary:
    if shutil.which("proot") is None or shutil.which("fakeroot") is None:
        pytest.skip("proot or fakeroot is missing")
    folder = Path(mkdtemp(dir=ordinary_person.home))
    if os.geteuid() == 0:
        os.chown(folder, 20001, 20001)
    return Ordinary(ordinary_person, engine_for_all, folder, open_registry)
