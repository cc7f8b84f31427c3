"""What a look at a file says of an image: by its content, whatever its name, and never a traceback."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch.plans import FACTS
from muster.facts import VenvFacts
from muster.images.reference import ImageReference
from muster.job.request import Request
from muster.look.image_facts import look_at_image, look_at_path
from muster.look.squashfs import SquashFs
from muster.sites.load import load

from .conftest import Images, with_version_of_torch
from .test_prologue import SAID


def sif(arch: bytes = b"02", length: int = 100) -> bytes:
    """A header as the format has it, and so much data as it promises."""
    head = b"#!/usr/bin/env run-singularity\n\0" + b"SIF_MAGIC\0" + b"01\0" + arch + b"\0"
    return head.ljust(112, b"\0") + struct.pack("<qq", 128, length) + b"x" * length


def tree_of(sif: Path) -> SquashFs:
    """The file system in a .sif."""
    return SquashFs(sif, sif.read_bytes().index(b"hsqs", 32768))


def test_a_real_sif_and_a_real_sandbox_are_known(images: Images) -> None:
    machine = os.uname().machine

    found = look_at_path(images.sif)
    assert (found.kind, found.arch, found.broken) == ("sif", machine, None)
    found = look_at_path(images.sandbox)
    assert (found.kind, found.arch, found.has_sh) == ("sandbox", machine, True)
    assert look_at_path(images.without_sh).has_sh is False


def test_a_real_sif_that_was_cut_off_is_broken(images: Images, tmp_path: Path) -> None:
    (tmp_path / "cut.sif").write_bytes(images.sif.read_bytes()[:-1])
    assert look_at_path(tmp_path / "cut.sif").broken


@pytest.mark.parametrize(
    ("name", "content", "kind", "arch", "broken"),
    [
        ("a", sif(), "sif", "x86_64", False),
        ("a.sif", sif(b"04"), "sif", "aarch64", False),
        ("a.sif", sif(b"99"), "sif", None, False),
        ("a.sif", sif()[:-1], "sif", "x86_64", True),
        ("a.sif", sif()[:60], "sif", None, True),
        ("a.sif", b"", "sif", None, True),
        ("a.sif", b"#!/bin/sh\n", "sif", None, True),
        ("a.sqsh", b"hsqs".ljust(40, b"\0") + struct.pack("<Q", 200), "squashfs", None, True),
        ("a.sqsh", (b"hsqs".ljust(40, b"\0") + struct.pack("<Q", 200)).ljust(200), "squashfs", None, False),
        ("a.sqsh", b"hsqs", "squashfs", None, True),
        ("a.toml", b'image = "x"\n', "edf", None, False),
        ("a.toml", b"image = \n", "edf", None, True),
        ("a.txt", b"hello", "file", None, False),
    ],
)
def test_files_by_their_content(
    tmp_path: Path, name: str, content: bytes, kind: str, arch: str | None, broken: bool
) -> None:
    (tmp_path / name).write_bytes(content)
    found = look_at_path(tmp_path / name)

    assert (found.kind, found.arch, found.broken is not None) == (kind, arch, broken)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300) | st.binary(max_size=200).map(lambda tail: sif()[:60] + tail))
def test_any_bytes_are_looked_at(tmp_path: Path, content: bytes) -> None:
    for name in ("x.sif", "x.sqsh", "x.toml", "x"):
        (tmp_path / name).write_bytes(content)
        assert look_at_path(tmp_path / name).kind in {"sif", "squashfs", "edf", "file"}


def test_what_is_not_there_or_not_an_image(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").touch()

    assert look_at_path(tmp_path / "none").kind == "missing"
    assert look_at_path(tmp_path / "file" / "below").kind == "missing"
    assert look_at_path(tmp_path / "data").kind == "directory"


def test_what_a_sandbox_is_made_for_is_seen(tmp_path: Path) -> None:
    box = tmp_path / "box"
    (box / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (box / "opt/rocm-7.0").mkdir(parents=True)
    shown = b"\x7fELF GNU C Library (Debian GLIBC 2.31-13+deb11u5) stable release version 2.31.\nGLIBC_2.2.5\0"
    (box / "usr/lib/x86_64-linux-gnu/libc.so.6").write_bytes(shown)

    assert (look_at_path(box).made_for, look_at_path(box).glibc) == ("rocm", (2, 31))
    (box / "usr/local/cuda-13.0").mkdir(parents=True)
    assert look_at_path(box).made_for is None, "it holds both"


def test_the_c_library_of_this_machine_is_read_as_it_says(tmp_path: Path) -> None:
    libraries = [path for path in Path("/usr/lib").glob("*-linux-gnu/libc.so.6") if path.exists()]
    if not libraries:
        pytest.skip("by design: this machine's C library is not glibc")
    (tmp_path / "usr/lib/any-linux-gnu").mkdir(parents=True)
    shutil.copy(libraries[0], tmp_path / "usr/lib/any-linux-gnu")

    # Not by this Python, which may have brought a C library of its own.
    said = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=True).stdout.strip()
    assert look_at_path(tmp_path).glibc == tuple(int(part) for part in said.removeprefix("glibc ").split("."))


@pytest.mark.parametrize("kind", SAID)
def test_a_real_sif_says_which_gpus_its_torch_is_for(images: Images, tmp_path: Path, kind: str) -> None:
    found = look_at_path(with_version_of_torch(images, tmp_path, SAID[kind], "xz" if kind == "cpu" else "gzip"))

    assert (found.made_for, found.has_sh, found.looked_inside) == (kind, True, True)


def test_a_real_sif_that_python_does_not_unpack_keeps_its_secrets(images: Images, tmp_path: Path) -> None:
    found = look_at_path(with_version_of_torch(images, tmp_path, SAID["cuda"], "zstd"))

    assert (found.kind, found.arch, found.broken) == ("sif", os.uname().machine, None)
    assert (found.made_for, found.looked_inside) == (None, False)


def test_a_file_in_a_real_sif_is_read_to_the_byte(images: Images) -> None:
    packed = tree_of(images.sif)

    assert packed.read("bin/busybox") == (images.sandbox / "bin/busybox").read_bytes()
    assert packed.read("bin/sh") == (images.sandbox / "bin/busybox").read_bytes(), "a link is followed"
    assert (packed.has("bin/nothing"), packed.read("bin"), packed.read("nothing")) == (False, b"", b"")
    assert list(packed.glob("bin/s*")) == ["bin/sh", "bin/sleep"]
    assert list(packed.glob("nothing/*")) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_sif_is_never_a_traceback(images: Images, tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(images.sif.read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        # The tables lie at the end, the superblock where the file system begins.
        place = data.draw(st.integers(max(len(whole) - 4096, 0), len(whole) - 1) | st.integers(32768, 37000))
        whole[min(place, len(whole) - 1)] = data.draw(st.integers(0, 255))
    (tmp_path / "damaged.sif").write_bytes(whole)

    assert look_at_path(tmp_path / "damaged.sif").kind == "sif"


def test_an_image_says_by_itself_how_its_environment_is_made_ready(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / ".singularity.d/env").mkdir(parents=True)
    assert look_at_path(tmp_path).activation == ()
    (tmp_path / ".singularity.d/env/90.sh").write_text('export WITH_CONDA="source /opt/go; conda activate x"\n')
    assert look_at_path(tmp_path).activation == ("$WITH_CONDA",)


def test_a_virtual_environment_for_an_image_is_looked_at(tmp_path: Path) -> None:
    box, venv = tmp_path / "box", tmp_path / "venv"
    for folder in (box / "usr/bin", box / "usr/lib/python3.12", venv / "bin"):
        folder.mkdir(parents=True)
    (box / "usr/bin/python3.12").touch()
    (box / "usr/lib/python3.12/os.py").touch()
    about = venv / "lib/python3.12/site-packages/one-1.dist-info"
    about.mkdir(parents=True)
    (about / "WHEEL").write_text("Tag: cp312-cp312-manylinux_2_17_x86_64\nTag: cp312-cp312-manylinux_2_28_x86_64\n")
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    (venv / "bin/python").symlink_to("python3")
    (venv / "bin/python3").symlink_to("/usr/bin/python3.12")

    def seen(folder: Path) -> VenvFacts | None:
        request = Request(command=("x",), image=ImageReference.parse(str(box)), venv=str(folder))
        found = look_at_image(request, load("generic"), type(FACTS)(working_directory="/", home="/")).image
        return None if found is None else found.venv

    assert seen(venv) == VenvFacts(str(venv), "3.12", "/usr/bin/python3.12", base_in_image=True, glibc=(2, 17))
    (box / "usr/lib/python3.12").rename(box / "usr/lib/python3.11")
    assert seen(venv) == VenvFacts(str(venv), "3.12", "/usr/bin/python3.12", glibc=(2, 17))
    assert seen(tmp_path / "none") == VenvFacts(str(tmp_path / "none"))


def test_links_in_a_sandbox_count_from_its_own_root(tmp_path: Path) -> None:
    box = tmp_path / "box"
    (box / "usr/bin").mkdir(parents=True)
    (box / "usr/bin/dash").touch()
    (box / "bin").symlink_to("usr/bin")
    (box / "usr/bin/sh").symlink_to("/bin/dash")
    assert look_at_path(box).has_sh

    (box / "usr/bin/sh").unlink()
    (box / "usr/bin/sh").symlink_to("/bin/sh")  # leads back to itself
    assert look_at_path(box).has_sh is False


def test_the_look_follows_links_and_finds_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "muster.toml").touch()
    (tmp_path / "link").symlink_to(project)
    (tmp_path / "x.sif").write_bytes(sif())
    request = Request(
        command=("prog", f"--data={tmp_path}/link"),
        image=ImageReference.parse(str(tmp_path / "x.sif")),
        bind=(f"{tmp_path}/link:/p",),
    )
    seen = look_at_image(
        request, load("generic"), type(FACTS)(working_directory=str(project / "src"), home=str(tmp_path))
    )

    assert seen.image is not None
    assert seen.image.project == str(project)
    assert seen.image.real_paths[f"{tmp_path}/link"] == str(project)
    assert look_at_image(Request(command=("x",)), load("generic"), FACTS).image is None
