"""What every task does before an image starts: under each POSIX shell, for any value, and with a sentence when the
node lacks something.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launch.shells import SHELLS, each_shell
from muster.look.image_facts import kind_of_torch
from muster.rank import agent_keeper
from muster.render.parts import compose
from muster.runner import ProgramResult, run

VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


def after(shell: tuple[str, ...], lines: str, environment: dict[str, str], then: str = "exec env -0") -> ProgramResult:
    """The prologue's part, then `lines`."""
    program = shutil.which(shell[0])
    assert program is not None
    text = f"{compose(('stop', 'image_node', 'image'))}\nmuster_rank=0\n{lines}\n{then}\n"
    return run([program, *shell[1:], "-c", text], env={"PATH": "/usr/bin:/bin", **environment})


def told(result: ProgramResult) -> dict[str, str]:
    assert result.ok, result.stderr
    return dict(item.split("=", 1) for item in result.stdout.split("\0") if item)


@each_shell
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES | st.sampled_from(["$x", "`x`", "\\", "\\\\$", '"', "a'b", "$(touch canary)", "\n", "*"]))
def test_any_value_is_the_same_after_the_engines_shell_has_read_it(shell: tuple[str, ...], value: str) -> None:
    found = told(after(shell, "muster_image_gets APPTAINERENV_ VALUE ABSENT", {"VALUE": value}))
    # The engine writes export NAME="…" with the double quotes escaped, and sources it.
    line = 'export SEEN="' + found["APPTAINERENV_VALUE"].replace('"', '\\"') + '"'

    assert told(run(["dash", "-c", f"{line}\nexec env -0"], env={"PATH": "/usr/bin:/bin"}))["SEEN"] == value
    assert "APPTAINERENV_ABSENT" not in found


@each_shell
def test_the_run_directory_is_bound_where_nothing_covers_it(shell: tuple[str, ...], tmp_path: Path) -> None:
    odd = tmp_path / "a,b:c"
    odd.mkdir()
    places = {"MUSTER_RUN_DIR": str(odd), "TMPDIR": str(tmp_path / "missing")}

    lines = "muster_image_takes APPTAINER /elsewhere /tmp-not"
    assert told(after(shell, lines, places))["APPTAINER_BIND"] == f"{tmp_path}/a\\,b\\:c"
    assert told(after(shell, lines, {**places, "APPTAINER_BIND": "/x"}))["APPTAINER_BIND"] == f"/x,{tmp_path}/a\\,b\\:c"
    assert "APPTAINER_BIND" not in told(after(shell, f"muster_image_takes APPTAINER /x {tmp_path}", places))


@each_shell
def test_what_the_node_lacks_is_a_sentence(shell: tuple[str, ...], tmp_path: Path) -> None:
    for line, sentence in (
        ("muster_image_needs no-such-engine /x", "has no no-such-engine"),
        ("muster_image_needs sh /no/such/image.sif", "does not see the image /no/such/image.sif"),
        (f"muster_image_sees {tmp_path} /no/such/path", "has no /no/such/path, but the image has to see it"),
    ):
        result = after(shell, line, {})
        assert result.status == 2
        assert sentence in result.stderr
        assert "\nhint: " in result.stderr


@each_shell
def test_what_mpi_tells_its_ranks_enters(shell: tuple[str, ...]) -> None:
    of_mpi = {
        "OMPI_COMM_WORLD_RANK": "3",
        "PMIX_RANK": "3",
        "PMI_FD": "7",
        "PMI2_X": "a b$c",
        "PMIXED": "no",
        "X_PMI_": "no",
    }
    found = told(after(shell, "muster_image_joins APPTAINERENV_", of_mpi))

    given = {name.removeprefix("APPTAINERENV_") for name in found if name.startswith("APPTAINERENV_")}
    assert given == {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_FD", "PMI2_X"}
    assert found["APPTAINERENV_PMI2_X"] == "a b\\$c"


@each_shell
def test_a_library_that_the_image_cannot_load_is_a_sentence(shell: tuple[str, ...], tmp_path: Path) -> None:
    engine, library = tmp_path / "engine", tmp_path / "libcxi.so.1"
    library.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0")

    def started(says: str, **more: str) -> ProgramResult:
        engine.write_text(f"#!/bin/sh\necho '{says}'\n")
        engine.chmod(0o755)
        line = f"muster_local_rank={more.pop('local', '0')}\nmuster_image_loads {engine} /x.sif APPTAINER {library}"
        return after(shell, line, more)

    refused = started("glibc 2.31")
    assert refused.status == 2
    assert f"the image /x.sif has glibc 2.31, but the host's {library} in it needs" in refused.stderr
    assert "needs 2.34" in refused.stderr
    assert "\nhint: " in refused.stderr
    for says in ("glibc 2.34", "glibc 2.100", "", "musl", "glibc 2.x"):
        assert started(says).ok, says
    assert started("glibc 2.31", local="1").ok, "one rank of a node asks"
    assert started("glibc 2.31", APPTAINER_UNSQUASH="1").ok, "an image that has to be unpacked is not asked"


CLOSED = compose(("stop", "image_node", "image", "image_unpack")).replace("[ ! -w /dev/fuse ] || return 0", ":")


def engine_in(folder: Path, *, unsquash: bool = True, status: int = 0) -> Path:
    """A program that says of itself what an engine says, and unpacks as one does."""
    program = folder / "bin/apptainer"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f"""#!/bin/sh
case "$1 $2" in
'exec --help') echo "{"  --unsquash" if unsquash else ""}" ;;
'build --sandbox') echo x >>{folder}/unpacked; mkdir -p "$3/closed" && chmod 555 "$3/closed"
    echo "FATAL: no space left on device"; exit {status} ;;
esac
"""
    )
    program.chmod(0o755)
    return program


def opened(
    shell: tuple[str, ...], program: Path, *, of: int, rank: int = 0, then: str = "exec env -0"
) -> ProgramResult:
    """What one of the ranks of a node does with a file, where /dev/fuse is closed."""
    who = f"muster_here=here muster_port=9 muster_rank={rank} muster_local_rank={rank} muster_local_size={of}"
    lines = f"{who}\nmuster_image_opens {program} APPTAINER /x.sif"
    places = {"TMPDIR": str(program.parents[1]), "MUSTER_RUN_DIR": f"{program.parents[1]}/run"}
    environment = {"PATH": "/usr/bin:/bin", **places, "MUSTER_JOB": "1"}
    return run(
        [*shell, "-c", f"{CLOSED}\n{lines}\n{then}", "muster", "--pwd", "/w", "/x.sif", "/x.sif"], env=environment
    )


@each_shell
def test_a_setuid_helper_mounts_what_fuse_may_not(shell: tuple[str, ...], tmp_path: Path) -> None:
    program = engine_in(tmp_path)
    starter = tmp_path / "libexec/apptainer/bin/starter-suid"
    starter.parent.mkdir(parents=True)
    starter.touch(mode=0o755)

    assert told(opened(shell, program, of=1))["APPTAINER_UNSQUASH"] == "1"
    starter.chmod(0o4755)
    assert "APPTAINER_UNSQUASH" not in told(opened(shell, program, of=1))


@each_shell
@pytest.mark.parametrize(("of", "unsquash"), [(2, True), (1, False)])
def test_one_rank_of_a_node_unpacks_for_all(shell: tuple[str, ...], tmp_path: Path, of: int, unsquash: bool) -> None:
    program = engine_in(tmp_path, unsquash=unsquash)
    then = 'eval "$muster_image_words"; printf "%s " "${APPTAINER_UNSQUASH:-packed}" "$@"'
    for rank in range(of):
        done = opened(shell, program, of=of, rank=rank, then=then)
        assert done.ok, done.stderr
        assert done.stdout.split() == ["packed", "--pwd", "/w", f"{tmp_path}/.muster-image-1.9.here/image", "/x.sif"]
        assert done.stderr.count("every node unpacks the image once") == (rank == 0)

    assert (tmp_path / "unpacked").read_text() == "x\n"
    assert (tmp_path / "run/.muster-image-1").exists(), "the script is told what to remove"
    assert (tmp_path / ".muster-image-1.9.here").stat().st_mode & 0o077 == 0


@each_shell
def test_an_image_that_cannot_be_unpacked_is_a_sentence_and_leaves_nothing(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    refused = opened(shell, engine_in(tmp_path, status=1), of=2)

    assert refused.status == 2
    assert "the image /x.sif cannot be unpacked on here: FATAL: no space left on device" in refused.stderr
    assert "\nhint: " in refused.stderr
    assert not (tmp_path / ".muster-image-1.9.here").exists()


@each_shell
def test_what_a_killed_job_left_is_removed_by_the_next(shell: tuple[str, ...], tmp_path: Path) -> None:
    for name, owner in (("dead", "999999999"), ("alive", str(os.getpid()))):
        (tmp_path / f".muster-image-{name}.here").mkdir()
        (tmp_path / f".muster-image-{name}.here/owner").write_text(f"{owner}\n")

    assert opened(shell, engine_in(tmp_path), of=2).ok
    assert not (tmp_path / ".muster-image-dead.here").exists()
    assert (tmp_path / ".muster-image-alive.here").exists()


SAID = {
    "cuda": "__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n",
    "rocm": "cuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482'\n",
    "cpu": "cuda: Optional[str] = None\nhip: Optional[str] = None\nxpu = None\n",
}


@pytest.mark.parametrize("kind", SAID)
def test_the_kind_of_torch_is_the_same_for_sh_and_for_python(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "usr/local/lib/python3.12/dist-packages/torch"
    place.mkdir(parents=True)
    (place / "version.py").write_text(SAID[kind])
    text = compose(("stop", "stack")).replace(" /usr/local/", f" {tmp_path}/usr/local/")

    assert kind_of_torch(SAID[kind].encode()) == kind
    for shell in SHELLS:
        assert run([*shell, "-c", f'{text}\neval "$muster_stack_text"']).stdout == f"stack={kind}\n", shell


@each_shell
@pytest.mark.parametrize(
    ("node", "torch", "says"),
    [
        ("cuda", "rocm", "is built for rocm, but this node has cuda GPUs"),
        ("rocm", "cuda", "is built for cuda, but this node has rocm GPUs"),
        ("cuda", "cuda", ""),
        ("cuda", "several", ""),
        ("cuda", "", ""),
        ("cuda", "cpu", "warning: the torch in the image /x.sif is built for CPUs"),
    ],
)
def test_a_torch_for_other_gpus_is_a_sentence(shell: tuple[str, ...], node: str, torch: str, says: str) -> None:
    text = compose(("stop", "stack"))
    done = run([*shell, "-c", f"{text}\nmuster_rank=0\nmuster_stack_fits /x.sif {node} '{torch}'"])

    assert says in done.stderr if says else done.stderr == ""
    assert done.status == (2 if "this node has" in says else 0)


@each_shell
def test_what_torchrun_is_started_with_stands_behind_the_ranks_command(shell: tuple[str, ...], tmp_path: Path) -> None:
    """The prologue tells it in the shell, and the keeper makes torchrun's words from it: a stand-in prints them."""
    (tmp_path / "agent.py").write_text("import sys; print(*sys.argv[1:], sep='\\0', end='\\0')")
    names = "muster_nodes=2 muster_address=node1 muster_port=20000 muster_id=1 muster_host=1 muster_here=node1"
    told = f"MUSTER_NTASKS_PER_NODE=2 MUSTER_AGENT_MODULE=agent MUSTER_AGENT_FLAGS='--role=a b\n--x=$y\n' {names}"
    text = f"{told}\n{compose(('agent_words', 'ends', 'stay', 'go_agent'))}"
    command = (sys.executable, agent_keeper.__file__, "plain", "--tee=3", "sh", "-c", "$x", "it's", "")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    result = run([*shell, "-c", text, "muster", *command], env=environment)
    words = result.stdout.split("\0")[:-1]

    assert words[1:3] == ["--nnodes=2", "--nproc-per-node=2"], result.stderr
    assert {"--rdzv-endpoint=node1:20000", "--rdzv-conf=is_host=1", "--local-addr=node1"} <= set(words)
    last = words[words.index("--max-restarts=0") :]
    assert last[1:] == ["--role=a b", "--x=$y", "--no-python", "--tee=3", "sh", "-c", "$$x", "it's", ""], (
        "torchrun reads $$ as $ in the command of a rank"
    )


@each_shell
def test_what_runs_inside_looks_there_itself(shell: tuple[str, ...], tmp_path: Path) -> None:
    """Under Pyxis and the Container Engine the prologue is in the image already."""
    place = tmp_path / "usr/local/lib/python3.12/dist-packages/torch"
    place.mkdir(parents=True)
    (place / "version.py").write_text(SAID["cuda"])
    text = compose(("stop", "stack", "stack_inside")).replace(" /usr/local/", f" {tmp_path}/usr/local/")
    refused = run([*shell, "-c", f"{text}\nmuster_local_rank=0\nmuster_stack_here x.sqsh rocm"])

    assert refused.status == 2
    assert "the torch in the image x.sqsh is built for cuda, but this node has rocm GPUs" in refused.stderr
    assert run([*shell, "-c", f"{text}\nmuster_local_rank=1\nmuster_stack_here x.sqsh rocm"]).ok, "one rank looks"


@each_shell
def test_a_virtual_environment_comes_first_inside(shell: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    text = f"{compose(('stop', 'venv_inside'))}\nmuster_venv_inside x.sqsh {tmp_path}\nexec env -0"
    refused = run([*shell, "-c", text], env={"PATH": "/usr/bin:/bin"})
    (tmp_path / "bin/python").touch(mode=0o755)
    found = told(run([*shell, "-c", text], env={"PATH": "/usr/bin:/bin"}))

    assert refused.status == 2
    assert "has no Python that runs in the image x.sqsh" in refused.stderr
    assert (found["VIRTUAL_ENV"], found["PATH"]) == (str(tmp_path), f"{tmp_path}/bin:/usr/bin:/bin")


@each_shell
def test_a_virtual_environment_that_the_image_does_not_run_is_a_sentence(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    engine = tmp_path / "engine"

    def started(says: str, local: int = 0) -> ProgramResult:
        engine.write_text(f"#!/bin/sh\n{says}\n")
        engine.chmod(0o755)
        line = f"muster_local_rank={local}\nmuster_image_runs_venv {engine} /x.sif /v 3.12 APPTAINER"
        text = f"{compose(('stop', 'image', 'image_asks'))}\n{line}"
        return run([*shell, "-c", text], env={"PATH": "/usr/bin:/bin"})

    assert started("echo 3.12").ok
    assert started("exit 1", local=1).ok, "one rank of a node asks"
    for says, how in (("echo 3.11", "its python is 3.11"), ("exit 127", "its python does not start")):
        refused = started(says)
        assert refused.status == 2
        assert f"the virtual environment /v was made with Python 3.12, but in the image /x.sif {how}" in refused.stderr
