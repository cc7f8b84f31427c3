"""--image, --engine and --bind → what runs: the engine, its flags, the paths it sees, and what is refused with a
sentence before anybody waits.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import MusterError
from muster.facts import Facts, ImageFacts, VenvFacts
from muster.job.options import parse, request_from
from muster.launchers.shell import UNPACKED
from muster.model.plan import Engine, Plan
from muster.plan.build import make_plan
from muster.plan.interactive import for_a_shell
from muster.render.explain import explain
from muster.render.script import job_script
from muster.runner import checked, run
from muster.sites.load import load

HERE = ImageFacts(
    machine="x86_64",
    project="/home/ada/project",
    package="/opt/venv/muster",
    programs={"apptainer": "/usr/bin/apptainer"},
    real_paths={path: path for path in ("/home/ada", "/home/ada/project", "/tmp", "/data", "/data/set.tar")},
)


def facts(kind: str | None = "sif", **more: object) -> Facts:
    """A host on which an image of this kind lies where --image says."""
    return replace(FACTS, image=replace(HERE, kind=kind, **more))


def planned(
    *words: str, seen: Facts | None = None, launcher: str = "auto", engine: Engine | None = None, **more: object
) -> Plan:
    """The plan of `-N 2 WORDS -- prog`, or of WORDS if they hold a command."""
    command = () if "--" in words else ("--", "prog")
    return plan("-N", "2", *words, *command, facts=seen or facts(), launcher=launcher, engine=engine, **more)  # type: ignore[arg-type]


def variables(made: Plan) -> dict[str, object]:
    return {each.name: each.value for each in made.variables}


CHOSEN = (
    ("generic", "x.sif", "sif", "apptainer"),
    ("generic", "box", "sandbox", "apptainer"),
    ("generic", "x.sqsh", "squashfs", "apptainer"),
    ("generic", "env.toml", "edf", "cscs"),
    ("clariden", "x.sqsh", "squashfs", "cscs"),
    ("clariden", "my-edf", "missing", "cscs"),
    ("clariden", "docker://nvcr.io/nvidia/pytorch:26.02-py3", None, "cscs"),
    ("clariden", "site:ngc-pytorch", None, "cscs"),
    ("lumi", "x.sif", "sif", "singularity"),
    ("lumi", "site:multitorch", "missing", "singularity"),
    ("supercloud", "x.sif", "sif", "apptainer"),
    ("horeka", "x.sif", "sif", "apptainer"),
)
REQUIRED = {
    "clariden": ("-A", "x123", "-t", "10:00"),
    "lumi": ("-A", "project_465000000", "-p", "small-g", "-t", "10:00", "-g", "8"),
    "horeka": ("-p", "gpu-h100", "-t", "10:00", "-g", "4", "--mem", "400G"),
    "supercloud": ("-p", "xeon-g6-volta", "-g", "2"),
}


@pytest.mark.parametrize(("site", "image", "kind", "engine"), CHOSEN)
def test_the_engine_follows_from_the_site_and_the_kind_of_image(
    site: str, image: str, kind: str | None, engine: str
) -> None:
    made = planned("--image", image, *REQUIRED.get(site, ()), seen=facts(kind, arch=None), site=site)

    assert made.image.engine == engine
    assert made.image.engine_reason.text


def test_the_entry_that_the_user_names_comes_before_that_of_the_sites_image(tmp_path: Path) -> None:
    text = (
        'name = "mine"\ntitle = "a site for a test"\n'
        '[containers.first]\nengine = "apptainer"\nflags = ["--first"]\n'
        '[containers.second]\nengine = "apptainer"\nflags = ["--second"]\n'
        '[containers.third]\nengine = "apptainer"\nflags = ["--third"]\n'
        '[images.theirs]\npath = "x.sif"\nengine = "second"\nreason = "theirs"\n'
    )
    (tmp_path / "mine.toml").write_text(text)

    def entry(*words: str) -> tuple[str | None, list[str]]:
        image = planned(*words, site=str(tmp_path / "mine.toml")).image
        return image.container, [str(flag.word) for flag in image.flags]

    assert entry("--image", "site:theirs") == ("second", ["--second"])
    assert entry("--image", "site:theirs", "--engine", "third") == ("third", ["--third"])
    assert entry("--image", "x.sif") == ("first", ["--first"])


def test_the_site_gives_binds_modules_and_the_verb() -> None:
    made = planned("--image", "x.sif", *REQUIRED["lumi"], site="lumi")
    sources = [mount.source for mount in made.image.mounts]

    assert {"/pfs", "/scratch", "/projappl", "/flash", "/usr/lib64/libcxi.so.1"} <= set(sources)
    assert ("module", "load", "lumi-aif-singularity-bindings") in [each.shown for each in made.prelude]
    assert made.image.verb == "run"
    assert "--rocm" not in [flag.word for flag in made.image.flags]  # harmful there, the site says


def test_why_says_exec_or_run_with_its_reason() -> None:
    def line(made: Plan) -> str:
        return next(f"{text}: {why.text}" for _, text, why in explain(made) if text.endswith((" exec", " run")))

    assert line(planned("--image", "x.sif")).startswith("apptainer exec: the command alone")
    assert line(planned("--image", "x.sif", *REQUIRED["lumi"], site="lumi")).startswith("singularity run: ")
    kept = planned("--image", "site:multitorch", *REQUIRED["lumi"], site="lumi", seen=facts("missing"))
    assert "its run script sets up the environment" in line(kept)


def test_a_node_of_unknown_gpus_says_itself_which_they_are() -> None:
    assert planned("--image", "x.sif", "-g", "4").image.asks_for_gpus
    assert not planned("--image", "x.sif").image.asks_for_gpus
    assert [flag.word for flag in planned("--image", "x.sif", *REQUIRED["horeka"], site="horeka").image.flags] == [
        "--nv"
    ]


def test_paths_of_the_run_are_seen_under_their_own_names() -> None:
    seen = facts(
        project="/home/ada", real_paths={"/home/ada": "/pfs/home/ada", "/tmp": "/tmp", "/scratch": "/pfs/scratch"}
    )
    made = planned(
        "--image", "x.sif", "--bind", "/scratch", "--bind", "/data:/set:ro", "--chdir", "/work/run", seen=seen
    )
    mounts = {mount.target: mount for mount in made.image.mounts}

    assert {"/home/ada", "/tmp", "/work/run", "/scratch", "/set", "/opt/muster-ranks/muster"} <= set(mounts)
    assert {"/pfs/home/ada", "/pfs/scratch"} <= set(mounts), "what lies behind a link is seen under its own name too"
    assert (mounts["/set"].source, mounts["/set"].read_only) == ("/data", True)
    assert mounts["/opt/muster-ranks/muster"].read_only


_NAMES = st.lists(st.sampled_from(["a", "b", "tmp", "home"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@settings(deadline=None)
@given(bound=st.lists(_NAMES, max_size=5), project=_NAMES, working=_NAMES)
def test_every_path_is_seen_and_no_parent_hides_a_child(bound: list[str], project: str, working: str) -> None:
    seen = replace(facts(project=project), working_directory=working)
    made = planned("--image", "/img/x.sif", *(word for each in bound for word in ("--bind", each)), seen=seen)
    same = [mount.target for mount in made.image.mounts if mount.source == mount.target]

    for path in (*bound, project, working, "/home/ada", "/tmp"):
        assert any(PurePosixPath(path).is_relative_to(each) for each in same)
    for number, path in enumerate(same):
        assert not any(PurePosixPath(before).is_relative_to(path) for before in same[:number]), same


def test_the_host_stays_outside_unless_asked_for() -> None:
    assert {"PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_*"} <= {
        name for name, value in variables(planned("--image", "x.sif")).items() if value is None
    }
    asked = planned("--image", "x.sif", "--env", "PYTHONPATH=/mine", "--env", "PYTHONNOUSERSITE=")
    assert variables(asked)["PYTHONPATH"] == "/mine"
    assert variables(asked)["PYTHONNOUSERSITE"] == ""
    assert "PYTHONPATH" not in variables(planned())


def test_the_command_runs_with_the_images_own_python() -> None:
    made = planned("--image", "x.sif", "--", "train.py")

    assert made.command == ("python3", "train.py")
    assert made.rank_library is None
    assert not [each for each in made.prelude if "activate" in str(each.words)]


def test_an_image_that_has_muster_keeps_its_own() -> None:
    made = planned("--image", "box", seen=facts("sandbox", has_rank_library=True))

    assert made.image.library is None
    assert not [mount for mount in made.image.mounts if "muster" in mount.target]


def test_paths_that_the_image_does_not_see_are_named() -> None:
    words = (
        "--image",
        "x.sif",
        "--env",
        "SET=/data/set.tar",
        "--",
        "prog",
        "--out=/data",
        "/inside/only",
        "/usr/bin/env",
    )
    said = [note.text for note in planned(*words).notes if note.warning]

    assert [text.partition(" ")[0] for text in said] == ["/data", "/data/set.tar"]
    assert said[1].endswith("--bind /data")
    assert not [note for note in planned("--bind", "/data", *words).notes if note.warning]
    inside = facts(inside=frozenset({"/data", "/data/set.tar"}))
    (only,) = [note.text for note in planned(*words, seen=inside).notes if note.warning]
    assert only.startswith("--out=/data: /data lies in the image")


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("--env", "CHECKPOINT_OUT=/repo/out", "--", "prog"), "/repo/out"),
        (("--", "prog", "--save-dir", "/repo/out"), "/repo/out"),
        (("--", "prog", "--output_dir=/opt/out"), "/opt/out"),
        (("--", "prog", "--ckpt-dir", "/opt/out"), "/opt/out"),
    ],
)
def test_an_output_that_would_go_into_the_image_is_named(words: tuple[str, ...], path: str) -> None:
    def warnings(seen: Facts, *more: str) -> list[str]:
        return [note.text for note in planned("--image", "x.sif", *more, *words, seen=seen).notes if note.warning]

    (known,) = warnings(facts(inside=frozenset({path})))
    (unknown,) = warnings(facts())

    assert f"{path} lies in the image" in known
    assert f"hint: --bind FOLDER:{path}" in known
    assert "whether the image has it is not known" in unknown
    assert f"{path} is not in the image, and no folder" in warnings(facts(looked_inside=True))[0]
    assert warnings(facts(inside=frozenset({path})), "--bind", f"/data:{path}") == []


@pytest.mark.parametrize(
    "words", ["--resume-from-output /repo/x", "--data /repo/x", "--out /tmp/x", "--out x", "--checkpoint=/repo/x.pt"]
)
def test_an_input_and_a_place_of_every_node_are_no_output_into_the_image(words: str) -> None:
    seen = facts(inside=frozenset({"/repo/x", "/tmp/x", "/repo/x.pt"}))
    assert not [n for n in planned("--image", "x.sif", "--", "prog", *words.split(), seen=seen).notes if n.warning]


VENV = VenvFacts("/proj/venv", "3.12", "/usr/bin/python3.12", base_in_image=True, glibc=(2, 28))


def in_image(venv: VenvFacts | None) -> Facts:
    """An image that could be looked into, and a virtual environment for it."""
    return facts(looked_inside=True, glibc=(2, 31), venv=venv)


def test_the_torch_of_a_virtual_environment_counts_and_not_the_images() -> None:
    words = ("--image", "x.sif", "--venv", "/proj/venv", *REQUIRED["horeka"])
    with pytest.raises(MusterError, match=r"the torch in /proj/venv is made for ROCm, but the nodes have CUDA GPUs"):
        planned(*words, seen=in_image(replace(VENV, made_for="rocm")), site="horeka")
    seen = facts(looked_inside=True, made_for="rocm", venv=replace(VENV, made_for="cuda"))
    assert planned(*words, seen=seen, site="horeka").image.venv == "/proj/venv"
    assert planned(*words, seen=facts(venv=VENV), site="horeka").image.compare_gpus == ""


def test_a_virtual_environment_in_an_image_is_bound_and_brings_its_python() -> None:
    made = planned("--image", "x.sif", "--venv", "/proj/venv", "--", "train.py", seen=in_image(VENV))

    assert made.command == ("/proj/venv/bin/python", "train.py")
    assert (made.image.venv, made.image.venv_python) == ("/proj/venv", None)
    assert "/proj/venv" in {mount.target for mount in made.image.mounts}
    assert not [each for each in made.prelude if "activate" in str(each.words)]
    unseen = planned("--image", "x.sif", "--venv", "/proj/venv", seen=facts(venv=replace(VENV, base_in_image=False)))
    assert unseen.image.venv_python == "3.12", "what cannot be seen from here is looked at on the nodes"


def test_one_that_lies_in_the_image_itself_is_not_bound() -> None:
    seen = in_image(VenvFacts("/opt/venv", in_image=True))
    made = planned("--image", "x.sif", "--venv", "/opt/venv", seen=seen)

    assert made.image.venv == "/opt/venv"
    assert "/opt/venv" not in {mount.target for mount in made.image.mounts}


def test_a_torch_for_cpus_is_named_where_gpus_are_asked_for() -> None:
    words = ("--image", "x.sif", "-g", "4")
    seen = facts(looked_inside=True, made_for="cpu")

    assert [note for note in planned(*words, seen=seen).notes if "built for CPUs" in note.text and note.warning]
    assert not [note for note in planned("--image", "x.sif", "-g", "0", seen=seen).notes if "for CPUs" in note.text]


def test_a_node_compares_only_what_could_not_be_seen_before() -> None:
    assert planned("--image", "x.sif", "-g", "4").image.compare_gpus == "node"
    assert planned("--image", "x.sif").image.compare_gpus == ""
    assert planned("--image", "x.sif", "-g", "4", seen=facts(looked_inside=True)).image.compare_gpus == ""
    asked = ("--image", "x.sif", *REQUIRED["horeka"])
    assert planned(*asked, site="horeka").image.compare_gpus == "cuda"


def test_an_image_that_wants_to_be_made_ready_first_is() -> None:
    made = planned("--image", "x.sif", seen=facts(activation=("$WITH_CONDA",)))
    assert made.image.activation == ("$WITH_CONDA",)


REFUSED = (
    (
        ("--image", "x.sif", "--venv", "/proj/venv"),
        in_image(replace(VENV, base_in_image=False)),
        "stands on /usr/bin/python3.12 of Python 3.12, which the image /home/ada/project/x.sif does not have",
    ),
    (
        ("--image", "x.sif", "--venv", "/proj/venv"),
        in_image(replace(VENV, glibc=(2, 34))),
        "packages of the virtual environment /proj/venv need 2.34",
    ),
    (("--image", "x.sif", "--venv", "/no/venv"), in_image(VenvFacts("/no/venv")), "there is no Python in /no/venv"),
    (("--image", "gone.sif"), facts("missing"), "there is no image gone.sif"),
    (("--image", "x.sif"), facts("sif", broken="it is shorter than it says"), "cannot be used: it is shorter"),
    (("--image", "notes.txt"), facts("file"), "not a known kind of image"),
    (("--image", "data"), facts("directory"), "a directory without programs"),
    (("--image", "library://x"), facts(), "docker:// is the only known"),
    (("--image", "site:none"), facts(), "there is no image of generic named 'none'"),
    (("--image", "name"), facts("missing"), "there is no image name"),
    (("--image", "x.sif", "--engine", "runc"), facts(), "there is no container engine named 'runc'"),
    (("--image", "x.sif", "--engine", "pyxis"), facts(), "pyxis cannot run a .sif file"),
    (("--image", "x.sif"), facts(programs={}), "neither this host nor a site profile has a program"),
    (("--image", "x.sif", "--bind", "/a:/b:/c"), facts(), "is not SRC[:DST[:ro]]"),
    (("--image", "x.sif", "--bind", "/a:b"), facts(), "b is not an absolute path"),
    (("--bind", "/a"), facts(), "but no image is named"),
    (("--engine", "apptainer"), facts(), "but no image is named"),
    (
        ("--image", "x.sif", "--env", "TRITON_CACHE_DIR=/opt/cache"),
        facts(),
        "is in the image, which is read-only",
    ),
    (("--image", "x.sif", "--env", "HF_HOME=/opt/{job_id}"), facts(), "is in the image, which is read-only"),
    (
        ("--image", "/home/ada", "--engine", "apptainer"),
        facts("sandbox"),
        "is in the image, but Muster has to make run directories",
    ),
    (("--image", "box", "--launcher", "torchrun"), facts("sandbox", has_sh=False), "has no sh, but torchrun"),
    (
        ("--image", "x.sqsh", "--engine", "pyxis", "--launcher", "mpirun"),
        facts("squashfs"),
        "under mpirun there is no srun",
    ),
    (("--image", "x.sqsh", "--engine", "pyxis", "--bind", "/a,b"), facts("squashfs"), "contains a colon or a comma"),
)


@pytest.mark.parametrize(("words", "seen", "sentence"), REFUSED, ids=[sentence for _, _, sentence in REFUSED])
def test_what_cannot_work_is_refused_with_a_hint(words: tuple[str, ...], seen: Facts, sentence: str) -> None:
    with pytest.raises(MusterError) as refused:
        planned(*words, seen=seen)
    assert sentence in refused.value.message
    assert refused.value.hint


def test_an_image_for_another_machine_is_refused() -> None:
    with pytest.raises(MusterError, match=r"is for x86_64, but a node of clariden is aarch64"):
        planned("--image", "x.sqsh", *REQUIRED["clariden"], seen=facts("squashfs", arch="x86_64"), site="clariden")
    with pytest.raises(MusterError, match=r"is for aarch64, but this machine is x86_64"):
        planned("--image", "x.sif", seen=facts(arch="aarch64"), launcher="local")


def test_an_image_for_other_gpus_is_refused_where_gpus_are_asked_for() -> None:
    words = ("--image", "box", *REQUIRED["lumi"])
    with pytest.raises(MusterError, match=r"is made for CUDA, but the nodes have ROCm GPUs"):
        planned(*words, seen=facts("sandbox", made_for="cuda"), site="lumi")
    assert planned(*words, seen=facts("sandbox", made_for="rocm"), site="lumi").image.image
    with pytest.raises(MusterError, match=r"is made for ROCm, but the nodes have CUDA GPUs"):
        planned("--image", "box", *REQUIRED["horeka"], seen=facts("sandbox", made_for="rocm"), site="horeka")
    assert planned("--image", "box", seen=facts("sandbox", made_for="cuda")).image.image, "no GPU is asked for"


def test_a_bound_library_that_is_newer_than_the_images_c_library_is_refused() -> None:
    words = ("--image", "box", *REQUIRED["lumi"])
    needed = {"/usr/lib64/libcxi.so.1": (2, 34), "/not/bound.so": (2, 99)}
    with pytest.raises(MusterError, match=r"has glibc 2\.31, but /usr/lib64/libcxi\.so\.1 of the host.*needs 2\.34"):
        planned(*words, seen=facts("sandbox", glibc=(2, 31), glibc_needed=needed), site="lumi")
    for glibc in ((2, 34), (2, 100), None):
        assert planned(*words, seen=facts("sandbox", glibc=glibc, glibc_needed=needed), site="lumi").image.image


def test_an_engine_that_lives_in_srun_needs_slurm() -> None:
    with pytest.raises(MusterError, match="is a part of srun, but without Slurm there is no srun"):
        planned("--image", "x.sqsh", "--engine", "pyxis", seen=facts("squashfs"), launcher="local")


def test_nodes_without_a_way_out_pull_no_image() -> None:
    with pytest.raises(MusterError, match="cannot reach the internet"):
        planned(
            "--image",
            "docker://x/y:1",
            "-p",
            "acc",
            "-A",
            "bsc1",
            "-q",
            "acc_ehpc",
            "-t",
            "10:00",
            "-g",
            "4",
            seen=facts(None),
            site="marenostrum5",
        )


def test_none_turns_off_what_a_settings_file_asks_for() -> None:
    assert planned("--image", "none").image.image is None


@pytest.mark.parametrize(("kind", "opens"), [("sif", True), ("sandbox", False)])
def test_a_shell_in_an_image_that_users_may_not_mount_has_it_unpacked(kind: str, opens: bool) -> None:
    """As an ordinary user without FUSE it was: "squashfuse_ll exited: fuse: failed to open /dev/fuse"."""
    site = load("generic")
    values, origins, command = parse(["--image", "x.sif"])
    asked = for_a_shell(request_from({}, values, origins, command), site, "sh")
    script = job_script(make_plan(asked, site, facts(kind), typed=(), stream=True))

    assert ("export APPTAINER_UNSQUASH=1" in script) is opens


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: root alone becomes a user without FUSE")
def test_the_engine_is_told_to_unpack_where_fuse_is_closed() -> None:
    as_nobody = ["setpriv", "--reuid=65534", "--clear-groups"]
    closed = not run([*as_nobody, "test", "-w", "/dev/fuse"]).ok
    words = [*as_nobody, "sh", "-c", UNPACKED, "muster", "sh", "-c", 'echo "$APPTAINER_UNSQUASH"']

    assert checked(run(words)).stdout == ("1\n" if closed else "\n")
