"""Guards that a compiled program which is linked with an MPI is told by its file, against what ldd's kin say."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from muster.look.linked import libraries_of
from muster.look.script import look_at_script
from muster.runner import checked, run


def built(folder: Path, library: str) -> Path:
    """Return a program that is linked with a library of this name, which does nothing."""
    if shutil.which("gcc") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("gcc is not here")
        pytest.skip("gcc is not here")
    (folder / "stub.c").write_text("int MPI_Init(void *a, void *b) { return 0; }\n")
    (folder / "main.c").write_text("int MPI_Init(void *, void *);\nint main() { return MPI_Init(0, 0); }\n")
    checked(run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", f"{folder}/{library}", f"{folder}/stub.c"]))
    checked(run(["gcc", "-o", f"{folder}/mpt", f"{folder}/main.c", f"{folder}/{library}"]))
    return folder / "mpt"


@pytest.mark.parametrize(
    ("library", "is_mpi"),
    [("libmpi.so.40", True), ("libmpich.so.12", True), ("libmpi_gnu_112.so.12", True), ("libmpicalc.so.1", False)],
)
def test_a_program_of_mpi_is_told(tmp_path: Path, library: str, is_mpi: bool) -> None:
    program = built(tmp_path, library)
    by_path = look_at_script(("./mpt", "x"), str(tmp_path))
    by_name = look_at_script(("env", "A=1", "mpt"), "/", {"PATH": str(tmp_path)})

    assert library in libraries_of(program)
    assert (by_path is not None and by_path.linked_mpi) is is_mpi
    assert (by_name is not None and by_name.linked_mpi) is is_mpi


def test_the_names_are_those_that_the_loader_reads(tmp_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not here")
    for program in (built(tmp_path, "libmpi.so.40"), Path(shutil.which("sh") or ""), Path(shutil.which("bash") or "")):
        told = checked(run(["readelf", "-dW", str(program)])).stdout.splitlines()
        wanted = [line.partition("[")[2].rstrip("]") for line in told if "(NEEDED)" in line]
        assert list(libraries_of(program)) == wanted
        assert wanted


def test_a_file_of_another_kind_or_a_cut_one_has_none(tmp_path: Path) -> None:
    program = built(tmp_path, "libmpi.so.40").read_bytes()
    for size in (0, 3, 10, 64, 200, 2000):
        (tmp_path / "cut").write_bytes(program[:size])
        assert libraries_of(tmp_path / "cut") == ()
    assert libraries_of(tmp_path) == ()
    assert look_at_script(("nothing-of-that-name",), "/", {"PATH": str(tmp_path)}) is None
