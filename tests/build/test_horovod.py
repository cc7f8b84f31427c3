"""Horovod as `muster build` makes it: what it is built against, what is said where it cannot be, and that the real
one trains to the weights of DDP on several hosts.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from launch.lab_runs import muster_run
from muster.errors import CommandFailed, MachineLacks, MusterError, RequestError
from muster.runner import checked, run
from muster_build import horovod
from muster_build.horovod import Target, add_horovod, kept_wheel, look_at_target, parse_check_build
from plugins.horovod import environment_with_torch
from plugins.labs import ROOT, Lab

TARGET = Target(python="cpython-311", arch="x86_64", torch="2.13.0+cpu", mpi="openmpi4.1.4")
EXAMPLE = ROOT / "examples/train_horovod.py"

# As 0.28.1 printed it here.
REPORT = """\
Horovod v0.28.1:

Available Frameworks:
    [ ] TensorFlow
    [X] PyTorch
    [ ] MXNet

Available Controllers:
    [X] MPI
    [X] Gloo

Available Tensor Operations:
    [ ] NCCL
    [ ] DDL
    [ ] CCL
    [X] MPI
    [X] Gloo
"""


def only(folder: Path, *programs: str) -> dict[str, str]:
    """An environment in which these programs alone are found."""
    folder.mkdir()
    for name in programs:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return {"PATH": str(folder), "HOME": str(folder)}


def test_the_report_of_a_build_is_read() -> None:
    report = parse_check_build(REPORT)

    assert report.version == "0.28.1"
    assert report.parts == {"PyTorch", "MPI", "Gloo"}


@given(text=st.text(max_size=200))
def test_any_other_text_is_refused_or_read(text: str) -> None:
    if "Horovod v" not in text:
        with pytest.raises(RequestError, match="does not describe a build"):
            parse_check_build(text)


@given(text=st.text(min_size=1, max_size=30))
def test_a_wheel_lies_under_a_plain_name(text: str) -> None:
    key = Target(python=text, arch=text, torch=text, mpi=text, nccl=text).key

    assert "/" not in key
    assert "\0" not in key
    assert key.startswith("0.28.1-torch")


def test_another_part_is_another_wheel() -> None:
    other = {"python": "cpython-312", "arch": "aarch64", "torch": "2.12.0", "mpi": "mpich4.2", "nccl": "2.29.3"}
    keys = {Target(**{**asdict(TARGET), name: value}).key for name, value in other.items()}

    assert len(keys | {TARGET.key}) == len(other) + 1


def test_without_torch_nothing_is_begun(tmp_path: Path) -> None:
    checked(run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]))

    with pytest.raises(RequestError, match="cannot import torch, but Horovod is built against it") as refused:
        look_at_target(tmp_path / "bare/bin/python", os.environ)
    assert refused.value.hint


@pytest.mark.torch
@pytest.mark.parametrize("missing", ["cmake", "c++", "mpicxx"])
def test_a_missing_tool_is_named_with_what_brings_it(tmp_path: Path, missing: str) -> None:
    tools = [name for name in ("cmake", "make", "c++", "mpicxx", "mpirun") if name != missing]

    with pytest.raises(MachineLacks, match=r"is missing \(" + missing.replace("+", r"\+")) as refused:
        look_at_target(Path(sys.executable), only(tmp_path / "bin", *tools))
    assert "apt-get install" in str(refused.value.hint)


@pytest.mark.torch
def test_an_mpi_without_its_headers_is_named(tmp_path: Path) -> None:
    """Debian's openmpi-bin has mpicxx; what it compiles against comes with libopenmpi-dev."""
    environment = only(tmp_path / "bin", "cmake", "make", "c++", "mpirun")
    (tmp_path / "bin/mpicxx").write_text(
        "#!/bin/sh\necho 'fatal error: mpi.h: No such file or directory' >&2; exit 1\n"
    )
    (tmp_path / "bin/mpicxx").chmod(0o755)

    with pytest.raises(MachineLacks, match=r"does not find the headers of its MPI \(mpi\.h\)") as refused:
        look_at_target(Path(sys.executable), environment)
    assert "libopenmpi-dev" in str(refused.value.hint)


@pytest.mark.torch
def test_an_nccl_is_refused_where_torch_has_no_gpus(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is built for CPUs, and NCCL moves the memory of GPUs"):
        look_at_target(Path(sys.executable), os.environ, nccl=tmp_path)


def test_an_nccl_is_a_directory_with_its_header_and_its_library(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="is not an NCCL"):
        horovod._nccl_home(tmp_path, {})
    with pytest.raises(MachineLacks, match="no NCCL is named"):
        horovod._nccl_home(None, {})
    (tmp_path / "include").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnccl.so.2").touch()
    (tmp_path / "include/nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_MINOR 29\n#define NCCL_PATCH 3\n")

    assert horovod._nccl_version(horovod._nccl_home(None, {"NCCL_HOME": str(tmp_path)})) == "2.29.3"
    of_gpus = Target(
        python="cpython-311", arch="x86_64", torch="2.13.0", mpi="openmpi4.1.4", cuda="13.0", nccl="2.29.3"
    )
    options = dict(horovod._options(of_gpus, tmp_path, {}))
    assert options["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert options["HOROVOD_NCCL_LIB"] == str(tmp_path / "lib")


def test_a_release_that_is_not_the_known_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("set(CMAKE_CXX_STANDARD 17)\n")

    with pytest.raises(RequestError, match="does not hold what was to be changed"):
        horovod._raise_standard(tmp_path)


def test_a_build_that_fails_says_the_first_error_and_where_the_rest_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "setup.py").write_text("raise RuntimeError('no MPI of yours was found')\n")
    log = tmp_path / "build.log"

    with pytest.raises(CommandFailed, match=r"Horovod was not built: .*no MPI of yours was found") as refused:
        horovod._compile(Path(sys.executable), source, tmp_path, os.environ, log)
    assert str(log) in str(refused.value.hint)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("-- Could not find CCache. Consider installing CCache\nx.cc:3:1: error: no\nmore\n", "x.cc:3:1: error: no"),
        (
            "-- Could not find CCache.\n-- Could NOT find MPI (missing: MPI_CXX)\n",
            "-- Could NOT find MPI (missing: MPI_CXX)",
        ),
        ("-- Could not find CCache.\nmake: *** [all] Killed\n", "make: *** [all] Killed"),
        ("", "it said nothing"),
    ],
)
def test_the_line_that_says_why_is_found_in_a_long_log(tmp_path: Path, said: str, why: str) -> None:
    (tmp_path / "log").write_text(said)

    assert horovod._first_error(tmp_path / "log") == why


@pytest.mark.torch
@pytest.mark.long
def test_a_wheel_is_built_from_the_release_and_kept(tmp_path: Path) -> None:
    """Five minutes of two cores; its wheel is what the tests of training use."""
    said: list[str] = []
    cache = tmp_path / "cache"
    python = environment_with_torch(tmp_path / "new")

    report = add_horovod(python, os.environ, said.append, cache=cache)

    assert {"PyTorch", "MPI", "Gloo"} <= report.parts
    assert any(text.startswith("building Horovod") for text in said)
    assert kept_wheel(cache, look_at_target(python, os.environ))
    assert not list(cache.rglob(".*.part"))
    shutil.copytree(cache, horovod.horovod_cache(os.environ), dirs_exist_ok=True)
    said.clear()
    add_horovod(environment_with_torch(tmp_path / "again"), os.environ, said.append, cache=cache)
    assert not any(text.startswith("building") for text in said), "the second takes the kept wheel"


@pytest.fixture(scope="module")
def alone(scratch: Path) -> Path:
    """The weights of one process that never heard of Horovod."""
    weights = scratch / "ddp-alone.pt"
    checked(run([sys.executable, str(ROOT / "examples/train_env.py"), "--out", str(weights)], timeout_s=200))
    return weights


@pytest.mark.lab
@pytest.mark.torch
@pytest.mark.parametrize("words", [("-N", "4"), ("-N", "2", "--ntasks-per-node", "2", "--mpi", "pmix")], ids=str)
def test_horovod_ends_with_the_weights_of_ddp(
    lab: Lab, alone: Path, horovod_python: Path, shared_directory: Path, words: tuple[str, ...]
) -> None:
    import torch

    weights = shared_directory / f"horovod-{len(words)}.pt"
    command = ("--launcher", "horovod", *words, "--", str(horovod_python), str(EXAMPLE), "--out", str(weights))
    result = muster_run(lab, shared_directory, *command, timeout_s=200)

    assert result.status == 0, result.stderr
    assert "ranks 4" in result.stdout
    one, other = torch.load(alone), torch.load(weights)
    assert max(float((one[name] - other[name]).abs().max()) for name in one) <= 1e-5


@pytest.mark.torch
def test_the_example_notices_a_world_of_its_own(horovod_python: Path) -> None:
    """An Open MPI that nobody started makes a world of one, and Horovod believes it."""
    result = run([str(horovod_python), str(EXAMPLE)], env={**os.environ, "WORLD_SIZE": "2"})

    assert result.status == 1
    assert "2 ranks were started and Horovod sees 1" in result.stderr


@pytest.mark.lab
@pytest.mark.torch
def test_a_pmi_that_the_mpi_does_not_speak_is_no_success(
    lab: Lab, horovod_python: Path, shared_directory: Path
) -> None:
    words = ("--launcher", "horovod", "-N", "2", "--mpi", "pmi2", "--", str(horovod_python), str(EXAMPLE))

    assert muster_run(lab, shared_directory, *words, timeout_s=200).status != 0


def test_every_refusal_has_a_hint(tmp_path: Path) -> None:
    for refused in (lambda: horovod._nccl_home(tmp_path, {}), lambda: parse_check_build("")):
        with pytest.raises(MusterError) as error:
            refused()
        assert error.value.hint
