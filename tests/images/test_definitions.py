"""What is written for the engines that live in srun, against their documented grammar; and an EDF loader.

Neither Pyxis nor the Container Engine can be run here: their words are checked, not their work.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.plan import Plan
from muster.older import tomllib
from muster.render.parts import part
from muster.render.script import job_script
from muster.runner import run
from plan.test_image import REQUIRED, facts, planned

# docs.cscs.ch/software/container-engine/edf: the keys of an EDF and their types.
_EDF = {
    "base_environment": (str, list),
    "image": (str,),
    "workdir": (str,),
    "entrypoint": (bool,),
    "writable": (bool,),
    "mounts": (list,),
    "env": (dict,),
    "annotations": (dict,),
    "devices": (list,),
}
# NVIDIA/pyxis, README: the options of srun, and SRC:DST[:FLAGS] separated by commas.
_PYXIS = {
    "--container-image",
    "--container-mounts",
    "--container-workdir",
    "--container-env",
    "--no-container-entrypoint",
}
_MOUNT = re.compile(r"(/[^:,]*):(/[^:,]*)(:ro)?")
_IMAGE = re.compile(r"([a-z0-9.-]+(:[0-9]+)?#)?[a-z0-9._/-]+(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?|/.*\.sqsh")


def load_edf(text: str) -> dict[str, Any]:
    """An EDF as the engine reads it: its keys are known, their types right, and $$ stands for $."""
    table = tomllib.loads(text)
    for key, value in table.items():
        assert key in _EDF, key
        assert isinstance(value, _EDF[key]), key
    assert bool(table.get("image")) != bool(table.get("base_environment"))
    for mount in table["mounts"]:
        assert _MOUNT.fullmatch(_expanded(mount)), mount
    return {**table, "env": {name: _expanded(value) for name, value in table.get("env", {}).items()}}


def _expanded(text: str) -> str:
    assert not re.search(r"(?<!\$)(\$\$)*\$(?!\$)", text), f"{text} would be expanded by the engine"
    return text.replace("$$", "$")


def written(made: Plan, run_directory: Path) -> str:
    """The EDF that the plan's script writes, by that part of the script itself."""
    script = job_script(made)
    begin = script.index("    muster_define ")
    end = script.index("    muster_step ")
    head = f"muster_run_dir='{run_directory}' muster_job=4711\n{part('definition')}"
    result = run(["bash", "-c", head + script[begin:end]])
    assert result.ok, result.stderr
    return (run_directory / "image.toml").read_text()


def test_an_edf_says_what_the_plan_says(tmp_path: Path) -> None:
    made = planned(
        "--image",
        "site:ngc-plain",
        *REQUIRED["clariden"],
        "--env",
        "OUT={run_dir}/{job_id}",
        seen=facts(None),
        site="clariden",
    )
    edf = load_edf(written(made, tmp_path))

    assert edf["image"] == "nvcr.io#nvidia/pytorch:26.02-py3"
    assert edf["workdir"] == "/home/ada/project"
    assert {
        "/capstor:/capstor",
        "/tmp:/tmp",
        f"{tmp_path}:{tmp_path}",
        "/opt/venv/muster:/opt/muster-ranks/muster:ro",
    } <= set(edf["mounts"])
    assert edf["env"]["OUT"] == f"{tmp_path}/4711"
    assert edf["env"]["PYTHONNOUSERSITE"] == "1"
    hooks = edf["annotations"]["com"]["hooks"]
    assert hooks["aws_ofi_nccl"] == {"enabled": "true", "variant": "cuda-dl"}


def test_an_edf_of_the_users_is_built_upon(tmp_path: Path) -> None:
    by_name = load_edf(written(planned("--engine", "cscs", "--image", "my-edf", seen=facts("missing")), tmp_path))
    by_path = load_edf(written(planned("--image", "/edf/my.toml", seen=facts("edf")), tmp_path))

    assert by_name["base_environment"] == "my-edf"
    assert by_path["base_environment"] == "/edf/my.toml"


@settings(deadline=None)
@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_any_value_survives_the_edf(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    from muster.images.cscs import _text

    assert _expanded(tomllib.loads(f"x = {_text(value)}")["x"]) == value


def flags_of(made: Plan) -> list[str]:
    """The words of the step, as the shell hands them to srun."""
    script = job_script(made)
    begin = script.index("    muster_step srun")
    line = script[begin : script.index('sh -c "$muster_task"', begin)].replace("muster_step srun", "printf '%s\\0'")
    head = "muster_run_dir=/home/ada/runs/1 muster_nodes=2 muster_ntasks_per_node=1 muster_cpus_per_task=1\n"
    return run(["bash", "-c", head + line.rstrip().rstrip("\\")]).stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    ("image", "kind", "written_as"),
    [
        ("docker://nvcr.io/nvidia/pytorch:26.02-py3", None, "nvcr.io#nvidia/pytorch:26.02-py3"),
        ("docker://nvcr.io#nvidia/pytorch:26.02-py3", None, "nvcr.io#nvidia/pytorch:26.02-py3"),
        ("docker://localhost:5000/a/b", None, "localhost:5000#a/b"),
        ("docker://localhost/a", None, "localhost#a"),
        ("docker://nvidia/a", None, "nvidia/a"),
        ("docker://ubuntu:24.04", None, "ubuntu:24.04"),
        ("docker://library/ubuntu", None, "library/ubuntu"),
        ("/images/x.sqsh", "squashfs", "/images/x.sqsh"),
    ],
)
def test_pyxis_gets_options_that_it_knows(image: str, kind: str | None, written_as: str) -> None:
    made = planned(
        "--engine", "pyxis", "--image", image, "--bind", "/data:/set:ro", "--env", "A=$x y", seen=facts(kind)
    )
    options = dict(each.split("=", 1) for each in flags_of(made) if each.startswith("--container"))

    assert set(options) <= _PYXIS
    assert options["--container-image"] == written_as
    assert _IMAGE.fullmatch(written_as)
    mounts = options["--container-mounts"].split(",")
    assert all(_MOUNT.fullmatch(each) for each in mounts), mounts
    assert {"/data:/set:ro", "/home/ada:/home/ada", "/home/ada/runs/1:/home/ada/runs/1"} <= set(mounts)
    assert options["--container-workdir"] == "/home/ada/project"
    assert "A" in options["--container-env"].split(",")


def test_the_image_stands_in_the_steps_flags_and_never_in_the_header() -> None:
    for words in (("--engine", "pyxis", "--image", "docker://x"), ("--engine", "cscs", "--image", "docker://x")):
        header = [
            line for line in job_script(planned(*words, seen=facts(None))).splitlines() if line.startswith("#SBATCH")
        ]
        assert not [line for line in header if "container" in line or "environment" in line]


def test_the_prologue_adds_the_rank_library_where_it_runs_inside() -> None:
    assert "muster_add_library /opt/muster-ranks\n" in job_script(
        planned("--engine", "pyxis", "--image", "docker://x", seen=facts(None))
    )
