"""A real Apptainer, and small images built with it from nothing but a static busybox."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.errors import CommandFailed, MachineLacks
from muster.runner import checked, run
from muster_lab.apptainer import apptainer_cache, prepared_apptainer, relocated
from plugins.labs import ROOT

_PROGRAMS = ("sh", "env", "cat", "printf", "hostname", "readlink", "ls", "id", "touch", "sleep", "true", "echo", "pwd")
_DEFINITION = """\
Bootstrap: localimage
From: {base}
%environment
  export FROM_IMAGE=image
  export PYTHONPATH=/opt/python-of-the-image
"""


@dataclass(frozen=True)
class Images:
    """One small system in its forms, and the PATH that leads to what runs it."""

    program: Path
    sif: Path
    sandbox: Path
    without_sh: Path

    @property
    def path(self) -> str:
        """A PATH that has the engine first."""
        return f"{self.program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"

    def form(self, name: str) -> Path:
        """sif, sandbox or without_sh."""
        found: Path = getattr(self, name)
        return found


@pytest.fixture(scope="session")
def images(scratch: Path) -> Images:
    """Built once a session, where every host of a lab sees it."""
    folder = scratch / "images"
    folder.mkdir()
    try:
        packages = prepared_apptainer(apptainer_cache(os.environ), lambda _: None)
    except (MachineLacks, CommandFailed) as error:
        pytest.skip(f"Apptainer is missing: {error.message}")
    program = relocated(packages, folder / "apptainer")
    busybox = packages / "usr/bin/busybox"
    base = _system(folder / "base", busybox, _PROGRAMS)
    (folder / "image.def").write_text(_DEFINITION.format(base=base))
    sandbox, sif = folder / "sandbox", folder / "image.sif"
    for built in (("--sandbox", str(sandbox), str(folder / "image.def")), (str(sif), str(sandbox))):
        checked(run([str(program), "--quiet", "build", *built]))
    return Images(program, sif, sandbox, _system(folder / "without_sh", busybox, ("env", "hostname")))


def _system(folder: Path, busybox: Path, programs: tuple[str, ...]) -> Path:
    for name in ("bin", "etc", "tmp", "proc", "sys", "dev", "usr", "var/tmp", "opt", "lib", "lib64"):
        (folder / name).mkdir(parents=True)
    shutil.copy2(busybox, folder / "bin/busybox")
    for name in programs:
        (folder / "bin" / name).symlink_to("busybox")
    for name in ("passwd", "group", "hosts", "resolv.conf", "localtime"):
        (folder / "etc" / name).touch()
    return folder


def with_version_of_torch(images: Images, folder: Path, text: str, packing: str = "gzip") -> Path:
    """A .sif whose torch is no more than its version.py, packed in one of the ways of squashfs."""
    box = folder / "box"
    shutil.copytree(images.sandbox, box, symlinks=True)
    place = box / "usr/local/lib/python3.12/dist-packages/torch"
    place.mkdir(parents=True)
    (place / "version.py").write_text(text)
    words = ("--quiet", "build", "--mksquashfs-args", f"-comp {packing}", str(folder / "torch.sif"), str(box))
    checked(run([str(images.program), *words]))
    shutil.rmtree(box)
    return folder / "torch.sif"


@pytest.fixture(scope="session")
def image_with_torch(images: Images, scratch: Path) -> tuple[str, ...]:
    """Words for an image whose programs are this machine's: a system of torch's size is not built for a test."""
    packages = prepared_apptainer(apptainer_cache(os.environ), lambda _: None)
    folder = _system(scratch / "images/with_torch", packages / "usr/bin/busybox", ("sh",))
    return words_with_torch(folder)


def words_with_torch(image: Path) -> tuple[str, ...]:
    """Words that bring this machine's Python and torch into any image."""
    own = [
        str(path) for path in (Path("/usr"), Path("/lib"), Path("/lib64"), Path(sys.base_prefix), ROOT) if path.exists()
    ]
    paths = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return ("--image", str(image), *(word for path in own for word in ("--bind", path)), "--env", f"PATH={paths}")
