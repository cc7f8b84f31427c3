"""Commands in images on real hosts with a real Apptainer: what arrives, what stays outside, and what is said when a
node lacks something. As root, and as an ordinary user to whom /dev/fuse is closed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

import muster
from launch.lab_runs import wait_until_ended
from launch.strangers import hold_a_door
from muster.rank import contract
from muster.runner import ProgramResult, checked, run
from plugins.labs import MUSTER, Lab

from .conftest import Images, with_version_of_torch, words_with_torch
from .test_prologue import SAID

pytestmark = pytest.mark.lab

ARGUMENTS = (
    *("a  b", "$(touch canary)", "`touch canary`", "it's", 'say "x"', "\\", "\\n", "new\nline", "*", "~", "ünï ☃", ""),
    *("-n", "--", "-x", "!!", "$HOME", "${rank}", "a;b", "a&b", "#", "%t", "{job_id}"),
)
_ADDS_UP = """
import os, sys, torch, torch.distributed as ranks, muster
ranks.init_process_group("gloo")
total = torch.tensor([float(ranks.get_rank() + 1)])
ranks.all_reduce(total)
print(int(total), muster.__file__, os.environ["APPTAINER_NAME"], sys.argv[1:])
ranks.destroy_process_group()
"""
VALUE = '$(touch canary) `touch canary` it\'s "x" \\ \\\\ $HOME\nünï *'
# What a login shell of the host's has, and what no image should see.
OF_THE_HOST = {
    "PYTHONPATH": "/host/python",
    "VIRTUAL_ENV": "/host/env",
    "CONDA_PREFIX": "/host/conda",
    "CONDA_DEFAULT_ENV": "host",
}
_WITNESS = (
    'env -0 >"$0/$RANK.env"; printf "%s\\0" "$@" >"$0/$RANK.arguments"; readlink /proc/self/cwd >"$0/$RANK.place"'
)


@dataclass(frozen=True)
class Seen:
    """What a rank saw from inside."""

    environment: Mapping[str, str]
    arguments: tuple[str, ...]
    place: str


def muster_run(
    lab: Lab, images: Images, folder: Path, *words: str, env: Mapping[str, str] | None = None
) -> ProgramResult:
    """`muster run --quiet` with `words`, with the engine on PATH."""
    return lab.exec([MUSTER, "run", "--quiet", *words], cwd=folder, env={"PATH": images.path, **(env or {})})


def witness(folder: Path, *arguments: str) -> list[str]:
    """A command for an image with sh: writes down what it sees, below `folder`."""
    return ["sh", "-c", _WITNESS, str(folder), *arguments]


def seen_in(folder: Path) -> dict[int, Seen]:
    """What was written down, by rank."""
    return {int(path.stem): _seen(path.with_suffix("")) for path in folder.glob("*.env")}


def _seen(base: Path) -> Seen:
    items = base.with_suffix(".env").read_bytes().decode().split("\0")
    arguments = base.with_suffix(".arguments").read_bytes().decode().split("\0")[:-1]
    environment = dict(item.split("=", 1) for item in items if item)
    return Seen(environment, tuple(arguments), base.with_suffix(".place").read_text().strip())


@dataclass(frozen=True)
class Started:
    """One run in one form of the image."""

    result: ProgramResult
    ranks: dict[int, Seen]
    folder: Path


@pytest.fixture
def folder(shared_directory: Path) -> Path:
    """Where a run is started: every user of the lab may write there."""
    made = Path(mkdtemp(dir=shared_directory))
    made.chmod(0o1777)
    return made


@pytest.fixture(scope="module", params=["srun-sif", "srun-sandbox", "mpirun-sandbox"])
def started(request: pytest.FixtureRequest, either_lab: Lab, images: Images, scratch: Path) -> Started:
    """Four ranks on two hosts, with everything hostile that fits into one command line."""
    launcher, _, form = request.param.partition("-")
    folder = Path(mkdtemp(dir=scratch))
    folder.chmod(0o1777)
    words = ("--launcher", launcher, "-N", "2", "--ntasks-per-node", "2", "--image", str(images.form(form)))
    variables = ("--env", f"VALUE={VALUE}", "--env", "FROM_IMAGE=mine", "--env", "OUT={run_dir}/{job_id}")
    # The login host of every lab has the machine's /tmp, where Open MPI takes an older lab's folder for its own.
    environment = {**OF_THE_HOST, "TMPDIR": str(folder)}
    result = muster_run(
        either_lab, images, folder, *words, *variables, "--", *witness(folder, *ARGUMENTS), env=environment
    )
    return Started(result, seen_in(folder), folder)


def test_every_rank_starts_and_the_run_ends_well(started: Started) -> None:
    assert started.result.status == 0, started.result.stderr
    assert sorted(started.ranks) == [0, 1, 2, 3]


def test_arguments_and_values_arrive_byte_for_byte(started: Started) -> None:
    assert {rank.arguments for rank in started.ranks.values()} == {ARGUMENTS}
    assert {rank.environment["VALUE"] for rank in started.ranks.values()} == {VALUE}
    assert not list(started.folder.rglob("canary"))


def test_each_rank_knows_its_place_inside_the_image(started: Started) -> None:
    for number, rank in started.ranks.items():
        assert set(contract.PUBLISHED) <= set(rank.environment)
        assert rank.environment["RANK"] == str(number)
        assert rank.environment["WORLD_SIZE"] == "4"
        assert rank.environment["MASTER_ADDR"] == "node1"


def test_the_working_directory_is_the_same_inside(started: Started) -> None:
    assert {rank.place for rank in started.ranks.values()} == {str(started.folder)}


def test_what_the_user_sets_wins_over_the_image(started: Started) -> None:
    assert {rank.environment["FROM_IMAGE"] for rank in started.ranks.values()} == {"mine"}
    for rank in started.ranks.values():
        assert rank.environment["OUT"].startswith(f"{started.folder}/muster-runs/")


def test_the_hosts_python_stays_outside(started: Started) -> None:
    for rank in started.ranks.values():
        assert not {"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"} & set(rank.environment)
        assert rank.environment["PYTHONNOUSERSITE"] == "1"


def test_the_rank_library_comes_last_on_the_images_own_path(started: Started) -> None:
    assert {rank.environment["PYTHONPATH"] for rank in started.ranks.values()} == {
        "/opt/python-of-the-image:/opt/muster-ranks"
    }


def run_in(lab: Lab, images: Images, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> ProgramResult:
    """Two ranks in the sandbox."""
    return muster_run(lab, images, folder, "--ntasks-per-node", "2", "--image", str(images.sandbox), *words, env=env)


def test_an_image_needs_no_sh(lab: Lab, images: Images, folder: Path) -> None:
    words = ("-N", "2", "--no-label", "--image", str(images.without_sh))
    result = muster_run(lab, images, folder, *words, "--", "hostname")

    assert result.status == 0, result.stderr
    assert sorted(result.stdout.split()) == ["node1", "node2"]


def test_torchrun_in_an_image_without_sh_is_a_sentence(lab: Lab, images: Images, folder: Path) -> None:
    for packing, sentence in (
        ("gzip", "has no sh, but torchrun starts its ranks in the image"),
        ("zstd", "cannot start sh on node1, but the ranks of torchrun need sh"),
    ):
        closed = folder / f"{packing}.sif"
        packed = ("--mksquashfs-args", f"-comp {packing}", str(closed), str(images.without_sh))
        checked(run([str(images.program), "--quiet", "build", *packed]))
        words = ("--launcher", "torchrun", "-N", "1", "--image", str(closed))
        result = muster_run(lab, images, folder, *words, "--", "hostname")

        assert result.status == 2
        assert sentence in result.stderr


def test_the_status_is_that_of_the_rank_that_failed(lab: Lab, images: Images, folder: Path) -> None:
    script = '[ "$RANK" = 0 ] || exit 7; sleep 20'

    assert run_in(lab, images, folder, "--", "sh", "-c", script).status == 7


def test_the_wire_up_enters_where_the_site_cleans_the_environment(lab: Lab, images: Images, folder: Path) -> None:
    words = ("--env", f"VALUE={VALUE}", "--", *witness(folder))
    result = run_in(lab, images, folder, *words, env={"APPTAINER_CLEANENV": "1", "LEAK": "1"})
    ranks = seen_in(folder)

    assert result.status == 0, result.stderr
    assert {rank.environment["VALUE"] for rank in ranks.values()} == {VALUE}
    assert all(set(contract.PUBLISHED) <= set(rank.environment) for rank in ranks.values())
    assert all("LEAK" not in rank.environment for rank in ranks.values())


def test_what_is_asked_for_does_enter(lab: Lab, images: Images, folder: Path) -> None:
    asked = ("--env", "PYTHONPATH=/mine", "--env", "LD_LIBRARY_PATH=/mine/lib", "--env", "CONDA_PREFIX=/mine/conda")
    result = run_in(lab, images, folder, *asked, "--", *witness(folder))
    environment = seen_in(folder)[0].environment

    assert result.status == 0, result.stderr
    assert environment["PYTHONPATH"] == "/mine:/opt/muster-ranks"
    assert environment["LD_LIBRARY_PATH"].startswith("/mine/lib")
    assert environment["CONDA_PREFIX"] == "/mine/conda"


def test_the_command_may_lie_in_the_image_and_nowhere_else(lab: Lab, images: Images, folder: Path) -> None:
    tool = images.sandbox / "opt/tools/only-inside"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text("#!/bin/sh\necho inside\n")
    tool.chmod(0o755)
    result = run_in(lab, images, folder, "--no-label", "--", "/opt/tools/only-inside")

    assert result.status == 0, result.stderr
    assert result.stdout.split() == ["inside", "inside"]
    assert not Path("/opt/tools/only-inside").exists()


def test_an_image_that_has_to_be_made_ready_first_is(
    lab: Lab, images: Images, folder: Path, image_with_torch: tuple[str, ...]
) -> None:
    """It says so itself, in the variable that holds the words."""
    _, shared, *more = image_with_torch
    image = str(shutil.copytree(shared, folder / "image", symlinks=True))
    (folder / "ready.sh").write_text("export READY=yes\n")
    says = Path(image, ".singularity.d/env/90-ready.sh")
    says.parent.mkdir(parents=True, exist_ok=True)
    says.write_text(f'export WITH_CONDA="source {folder}/ready.sh"\n')
    command = ("--", "sh", "-c", 'echo "ready: $READY"')
    result = muster_run(lab, images, folder, "-N", "2", "--no-label", "--image", image, *more, *command)

    assert result.status == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["ready: yes", "ready: yes"]


def test_a_bound_path_is_seen_and_read_only_where_asked(lab: Lab, images: Images, folder: Path) -> None:
    data = folder / "data, with: odd 'signs'"
    data.mkdir()
    data.chmod(0o1777)
    (data / "file").write_text("content")
    link = folder / "link"
    link.symlink_to(data)
    script = f"cat /data/file && ! touch /data/new 2>/dev/null && cat '{link}/file'"

    result = run_in(lab, images, folder, "--no-label", "--bind", f"{link}:/data:ro", "--", "sh", "-c", script)

    assert result.status == 0, result.stderr
    assert result.stdout == "contentcontent" * 2


def test_a_bind_that_the_node_lacks_is_a_sentence(lab: Lab, images: Images, folder: Path) -> None:
    result = run_in(lab, images, folder, "--bind", "/no-such-place/data", "--", "hostname")

    assert result.status == 2
    assert "the node node1 has no /no-such-place/data, but the image has to see it" in result.stderr
    assert "hint: " in result.stderr


def test_an_image_on_the_login_hosts_own_disk_is_a_sentence(lab: Lab, images: Images, folder: Path) -> None:
    script = f"""
        own=$(mktemp --suffix .sif) && trap 'rm -f "$own"' EXIT && cp "{images.sif}" "$own"
        "$0" run --quiet -N 2 --image "$own" -- hostname
    """
    result = lab.exec(["sh", "-c", script, MUSTER], cwd=folder, env={"PATH": images.path})

    assert result.status == 2
    assert "lies in a directory that every host has for itself" in result.stderr
    assert "does not see the image /tmp/" in result.stderr


def test_a_closed_fuse_is_said_and_the_image_unpacked(either_lab: Lab, images: Images, folder: Path) -> None:
    """One rank on a node: the engine unpacks. Several: one unpacks for all, and nothing stays."""
    closed = either_lab.person.ordinary and not Path("/dev/fuse").stat().st_mode & 0o002
    for ranks, how in (("1", "unpacked when its rank starts (--unsquash)"), ("3", "every node unpacks the image once")):
        words = ("-N", "2", "--ntasks-per-node", ranks, "--no-label", "--image", str(images.sif))
        result = muster_run(either_lab, images, folder, *words, "--", "hostname")

        assert result.status == 0, result.stderr
        assert sorted(result.stdout.split()) == ["node1"] * int(ranks) + ["node2"] * int(ranks)
        assert result.stderr.count(how) == closed
    left = [either_lab.exec(["sh", "-c", "ls -a /tmp"], host=each).stdout for each in ("node1", "node2")]
    assert ".muster-image" not in "".join(left)
    assert not list(folder.iterdir())


def test_a_shell_in_an_image_has_its_terminal_where_fuse_is_closed_too(
    either_lab: Lab, images: Images, folder: Path
) -> None:
    typed = shlex.join([MUSTER, "shell", "--image", str(images.sif)])
    keys = "(sleep 1; echo 'tty && ls -d /.singularity.d; echo on $(hostname)'; sleep 1; echo exit)"
    script = f"{keys} | script -qec {shlex.quote(typed)} /dev/null"
    result = either_lab.exec(["sh", "-c", script], cwd=folder, env={"PATH": images.path}, timeout_s=90)

    assert result.status == 0, result.stdout + result.stderr
    assert re.search(r"/dev/(pts/[0-9]+|console|tty)", result.stdout), result.stdout
    assert "/.singularity.d" in result.stdout.replace("ls -d /.singularity.d", "")
    assert "on node1" in result.stdout


def test_an_unpacked_image_goes_also_when_a_rank_fails(ordinary_lab: Lab, images: Images, folder: Path) -> None:
    if Path("/dev/fuse").stat().st_mode & 0o002:
        pytest.skip("by design: /dev/fuse is open to users here")
    words = ("-N", "2", "--ntasks-per-node", "2", "--image", str(images.sif))
    result = muster_run(ordinary_lab, images, folder, *words, "--", "sh", "-c", '[ "$RANK" -ne 2 ] || exit 7; sleep 20')

    assert result.status == 7
    assert ".muster-image" not in ordinary_lab.exec(["sh", "-c", "ls -a /tmp"], host="node2").stdout


def test_a_full_disk_under_an_image_that_has_to_be_unpacked_is_a_sentence(
    ordinary_lab: Lab, images: Images, folder: Path
) -> None:
    if Path("/dev/fuse").stat().st_mode & 0o002:
        pytest.skip("by design: /dev/fuse is open to users here")
    full = ["sh", "-c", "head -c 300M /dev/zero >/tmp/full"]
    ordinary_lab.exec(full, host="node1")
    words = ("-N", "2", "--ntasks-per-node", "2", "--image", str(images.sif))
    result = muster_run(ordinary_lab, images, folder, *words, "--", "hostname")
    ordinary_lab.exec(["rm", "/tmp/full"], host="node1")

    assert result.status == 2
    assert "cannot be unpacked on node1: " in result.stderr
    assert "hint: " in result.stderr
    assert ".muster-image" not in ordinary_lab.exec(["sh", "-c", "ls -a /tmp"], host="node2").stdout


_CUDA_SITE = """\
name = "here"
title = "Here"
[nodes.any]
gpu_kind = "cuda"
gpus = 4
"""


@pytest.mark.parametrize(
    ("packing", "where"), [("gzip", "the nodes have CUDA GPUs"), ("zstd", "this node has cuda GPUs")]
)
def test_an_image_for_other_gpus_is_named_before_queueing_or_at_the_start(
    lab: Lab, images: Images, folder: Path, packing: str, where: str
) -> None:
    """What Python can unpack is seen before; what it cannot, the first rank of each node asks."""
    (folder / "site.toml").write_text(_CUDA_SITE)
    (folder / "image").mkdir()
    image = with_version_of_torch(images, folder / "image", SAID["rocm"], packing)
    words = ("--site", str(folder / "site.toml"), "-N", "2", "-g", "2", "--image", str(image))
    planned = lab.exec([MUSTER, "plan", "--quiet", *words, "--", "hostname"], cwd=folder, env={"PATH": images.path})
    result = muster_run(lab, images, folder, *words, "--", "hostname")

    assert (planned.status, result.status) == (2 if packing == "gzip" else 0, 2)
    assert where in result.stderr
    assert "hint: " in result.stderr
    assert muster_run(lab, images, folder, *words, "-g", "0", "--", "hostname").status == 0


def test_the_script_runs_with_sbatch_alone(lab: Lab, images: Images, folder: Path) -> None:
    words = ["--image", str(images.sandbox), "-N", "2", "--ntasks-per-node", "2", "-o", "out.txt"]
    planned = lab.exec(
        [MUSTER, "plan", "--quiet", *words, "--", *witness(folder, *ARGUMENTS)], cwd=folder, env={"PATH": images.path}
    )
    (folder / "job.sh").write_text(planned.stdout)
    queued = lab.exec(["sbatch", "--parsable", "job.sh"], cwd=folder)

    assert wait_until_ended(lab, queued.stdout.strip()) == "COMPLETED", (folder / "out.txt").read_text()
    assert {rank.arguments for rank in seen_in(folder).values()} == {ARGUMENTS}


def test_on_this_machine_alone_it_is_the_same(images: Images, folder: Path) -> None:
    words = [MUSTER, "run", "--here", "--quiet", "--ntasks-per-node", "2", "--image", str(images.sandbox)]
    environment = {**os.environ, "PATH": images.path, "CONDA_PREFIX": "/host", "PYTHONPATH": "/host"}
    result = run([*words, "--env", f"VALUE={VALUE}", "--", *witness(folder, *ARGUMENTS)], cwd=folder, env=environment)
    ranks = seen_in(folder)

    assert result.status == 0, result.stderr
    assert {rank.arguments for rank in ranks.values()} == {ARGUMENTS}
    assert {rank.environment["VALUE"] for rank in ranks.values()} == {VALUE}
    assert {rank.environment["PYTHONPATH"] for rank in ranks.values()} == {"/opt/python-of-the-image:/opt/muster-ranks"}
    assert all("CONDA_PREFIX" not in rank.environment for rank in ranks.values())


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_torch_adds_up_in_the_image(
    lab: Lab, images: Images, folder: Path, image_with_torch: tuple[str, ...], launcher: str
) -> None:
    (folder / "adds_up.py").write_text(_ADDS_UP)
    words = ("--launcher", launcher, "-N", "2", "--no-label", *image_with_torch, "--", "adds_up.py", "a  b", "$x")
    result = muster_run(lab, images, folder, *words)

    assert result.status == 0, result.stderr
    # The image's environment is that of the tests, which has a Muster of its own: ours gives way.
    said = f"3 {muster.__file__} with_torch ['a  b', '$x']"
    assert result.stdout.splitlines() == [said, said]


# How the door and its secret come into a container is asked of each engine, and of each launcher, once.
@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["srun", pytest.param("torchrun", marks=pytest.mark.long), "mpirun"])
def test_the_ranks_of_a_closed_job_meet_in_the_image(
    lab: Lab, images: Images, folder: Path, image_with_torch: tuple[str, ...], launcher: str
) -> None:
    hold_a_door(lab, folder, ["--launcher", launcher, *image_with_torch], env={"PATH": images.path})


# In a namespace of its own, since crun refuses a machine that has both kinds of cgroups.
PODMAN = """\
#!/bin/sh
export CONTAINERS_CONF={0}/containers.conf
exec unshare --mount sh -c 'umount -l /sys/fs/cgroup/unified 2>/dev/null; exec "$@"' sh \
    {1} --root {0}/root --runroot {0}/run "$@"
"""


@pytest.fixture
def podman() -> Iterator[Path]:
    """A real podman, by a name on a PATH of its own, and the image localhost/empty:1 of folders alone."""
    program = shutil.which("podman")
    if program is None:
        pytest.skip("podman is missing")
    place = Path(mkdtemp(prefix="podman-", dir="/var/tmp"))  # podman wants a short name
    (place / "containers.conf").write_text('[containers]\ncgroups = "disabled"\n[engine]\nevents_logger = "none"\n')
    (place / "bin").mkdir()
    (place / "bin/podman").write_text(PODMAN.format(place, program))
    (place / "bin/podman").chmod(0o755)
    for name in ("usr", "lib", "lib64", "etc", "tmp", "proc", "sys", "dev", "run"):
        (place / "empty" / name).mkdir(parents=True)
    (place / "empty/bin").symlink_to("usr/bin")
    checked(run(["tar", "-C", str(place / "empty"), "-cf", str(place / "empty.tar"), "."]))
    checked(run([str(place / "bin/podman"), "import", str(place / "empty.tar"), "localhost/empty:1"]))
    yield place / "bin"
    checked(run([str(place / "bin/podman"), "system", "reset", "--force"]))
    shutil.rmtree(place)


@pytest.mark.torch
@pytest.mark.parametrize(
    "launcher", [*(pytest.param(each, marks=pytest.mark.long) for each in ("srun", "mpirun")), "torchrun"]
)
def test_the_ranks_of_a_closed_job_meet_in_containers_of_podman(
    lab: Lab, folder: Path, podman: Path, launcher: str
) -> None:
    _, _, *binds = words_with_torch(podman)
    words = ["--launcher", launcher, "--engine", "podman", "--image", "docker://localhost/empty:1", *binds]
    hold_a_door(lab, folder, words, env={"PATH": f"{podman}:{os.environ['PATH']}"})


@pytest.mark.torch
def test_the_status_of_a_rank_under_an_agent_in_the_image(
    lab: Lab, images: Images, folder: Path, image_with_torch: tuple[str, ...]
) -> None:
    words = ("--launcher", "torchrun", "-N", "2", *image_with_torch, "--", "sh", "-c", "exit 9")

    assert muster_run(lab, images, folder, *words).status == 9


@pytest.mark.parametrize("form", ["sif", "sandbox"])
def test_an_image_and_its_data_are_staged_under_their_own_names(
    lab: Lab, images: Images, folder: Path, form: str
) -> None:
    (folder / "a b").mkdir()
    (folder / "a b/a").write_text("staged\n")
    script = 'read -r line <"a b/a"; echo "$line $APPTAINER_CONTAINER"; echo $RANK >out/$RANK'
    words = ("-N", "2", "--image", str(images.form(form)), "--stage-env", "--stage", "a b", "--stage-out", "out")
    away = ("--node-prologue", "sh -c 'echo shared >\"a b/a\"'")

    done = muster_run(lab, images, folder, *words, *away, "--", "sh", "-c", script)

    assert done.ok, done.stderr
    assert done.stdout.count(f" /tmp/muster-stage-{os.getuid()}/{form if form == 'sandbox' else 'image.sif'}-") == 2
    assert done.stdout.count("staged") == 2, done.stderr
    assert {each.name: each.read_text() for each in (folder / "out").iterdir()} == {"0": "0\n", "1": "1\n"}
