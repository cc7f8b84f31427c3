"""request + site + facts → plan: the arithmetic, what the user asks for wins, and what cannot be is refused."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.plans import FACTS, plan
from muster.errors import MusterError, RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.model.digest import digest_of
from muster.model.plan import Plan
from muster.model.words import Template, quote, template
from muster.plan.asked import absorb_flags
from muster.plan.shape import NodeShape, make_shape
from muster.render.explain import explain
from muster.render.script import job_script
from muster.slurm.flags import gpu_type_in_gres, gpus_in_gres, split_flag


def header(made: Plan) -> dict[str, str | None]:
    return {each.name: each.value for each in made.directives}


@given(
    nodes=st.integers(1, 10_000),
    gpus=st.none() | st.integers(0, 16),
    ranks=st.none() | st.integers(1, 64),
    cpus=st.none() | st.integers(1, 256),
    node=st.builds(
        NodeShape,
        gpus=st.none() | st.integers(0, 8),
        cpus=st.none() | st.integers(1, 256),
        cpus_per_gpu=st.none() | st.integers(1, 64),
    ),
)
def test_a_shape_is_consistent_or_refused_with_its_equation(
    nodes: int, gpus: int | None, ranks: int | None, cpus: int | None, node: NodeShape
) -> None:
    asked = Request(command=("x",), nodes=nodes, gpus_per_node=gpus, ntasks_per_node=ranks, cpus_per_task=cpus)
    try:
        shape = make_shape(asked, node)
    except RequestError as error:
        assert error.hint  # noqa: PT017  # refused is as good as consistent, if it says what to do
        return

    assert shape.ntasks == nodes * shape.ntasks_per_node
    assert not shape.gpus_per_node or shape.ntasks_per_node <= shape.gpus_per_node
    assert node.gpus is None or shape.gpus_per_node <= node.gpus
    assert not (node.cpus and shape.cpus_per_task and cpus) or shape.ntasks_per_node * shape.cpus_per_task <= node.cpus
    assert ranks is None or shape.ntasks_per_node == ranks


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (("-g", "2", "--ntasks-per-node", "4", "x"), "4 ranks per node need 4 GPUs per node", "--ntasks-per-node 2"),
        (("-g", "2", "--gres", "gpu:4", "x"), "contradict each other", "once"),
        (("-N", "2", "--sbatch=-N3", "x"), "contradict each other", "once"),
        (("--sbatch=--gpus-per-task=1", "x"), "breaks peer access", "-g GPUS_PER_NODE"),
        (("--sbatch=--ntasks=8", "x"), "leaves open how many ranks a node has", "--ntasks-per-node"),
        (("--sbatch=--export=ALL", "x"), "--env", "--env KEY=VALUE"),
        (("--sbatch=exclusive", "x"), "is not a whole flag", "--sbatch=--exclusive"),
        (("--sbatch=--signal=B:USR1@90", "x"), "for the batch script alone", "--sbatch=--signal=USR1@90 "),
        (("--sbatch=--signal=rb:USR1@90", "x"), "for the batch script alone", "--sbatch=--signal=R:USR1@90 "),
        (("--launcher", "torchrun", "--sbatch=--signal=USR1@90", "x"), "reaches torchrun's agents", "--launcher srun"),
        (("--launcher", "mpirun", "--sbatch=--signal=USR1@90", "x"), "reaches mpirun's daemons", "--launcher srun"),
        (("--sbatch=--mem=1G\n#SBATCH --x", "x"), "control character", "one line"),
        (("--master-addr", "host:29500", "x"), "holds a port", "--master-port 29500"),
        (("-N", "2", "--master-addr", "localhost", "x"), "means another host on every node", "first host"),
        (("-m", "arbitrary", "x"), "the host of rank 0 is not known", "block"),
        (("--launcher", "local", "x"), "on this machine only", "--here"),
        (
            ("torchrun", "--nproc_per_node=4", "train.py"),
            "a launcher of its own (torchrun)",
            "--launcher torchrun -- python train.py",
        ),
        (("python", "-m", "torch.distributed.run", "train.py"), "a launcher of its own", "--launcher torchrun"),
        (("/opt/mpi/bin/mpirun", "-np", "4", "python", "train.py"), "(mpirun)", "--launcher mpirun -- python train.py"),
        (("accelerate", "launch", "train.py", "--x"), "(accelerate)", "python train.py --x"),
        (("horovodrun", "-np", "4", "python3", "train.py"), "(horovodrun)", "--launcher mpirun -- python3 train.py"),
        (
            ("python", "-u", "-m", "torch.distributed.launch", "t.py"),
            "(python -m torch.distributed.launch)",
            "python t.py",
        ),
        (
            ("torchrun", "--nnodes=2", "--nproc-per-node", "4", "-m", "pkg.train", "a b"),
            "a launcher of its own (torchrun)",
            "-N 2 --ntasks-per-node 4 --launcher torchrun -- python -m pkg.train 'a b'",
        ),
        (
            ("env", "A=1", "mpiexec.hydra", "-np", "2", "./a.out"),
            "(mpiexec.hydra)",
            "--launcher mpirun -- env A=1 ./a.out",
        ),
        (("srun", "-n4", "hostname"), "(srun)", "--launcher srun -- hostname"),
        (("python", "-m", "accelerate.commands.launch", "t.py"), "own", "--launcher torchrun -- python t.py"),
        (("--node-prologue", "echo 'open", "x"), "cannot be split", "quotes"),
        (("--", "-x"), "begins with -x", "./-x"),
        (("--srun=label", "x"), "is not a whole flag", "--srun=--label"),
        (("--srun=--export=NONE", "x"), "keep the wire-up from the ranks", "--env"),
        (("--srun=-n3", "x"), "is part of the plan", "--ntasks-per-node"),
        (("--srun=-o", "--srun=f", "x"), "hide the output", "-o FILE"),
        (("--sbatch=--ntasks-per-gpu=1", "x"), "is what the plan works out", "-g GPUS_PER_NODE"),
        (("--sbatch=--tres-per-task=gres/gpu:1", "x"), "breaks peer access", "-g GPUS_PER_NODE"),
        (("",), "first word is empty", "name"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type_instead(words: tuple[str, ...], sentence: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        plan(*words)

    assert sentence in refused.value.message
    assert hint in (refused.value.hint or "")


def test_flags_for_slurm_are_understood_and_not_appended_blindly() -> None:
    made = plan("--sbatch=--nodes=3", "--sbatch=--gres=gpu:a100:2", "--sbatch=--requeue", "--sbatch=-c4", "x")

    assert (made.shape.nodes, made.shape.gpus_per_node, made.shape.ntasks_per_node, made.shape.cpus_per_task) == (
        3,
        2,
        2,
        4,
    )
    assert header(made)["gres"] == "gpu:a100:2"
    assert header(made)["requeue"] is None
    assert "gpus-per-node" not in header(made)


def test_a_misspelt_flag_of_slurms_is_named_with_the_nearest_that_there_is() -> None:
    warned = [note.text for note in plan("--sbatch=--reservaton=maintenance", "x").notes if note.warning]
    assert warned == [
        "--sbatch=--reservaton=maintenance: sbatch has no --reservaton: did you mean 'reservation'?",
    ]


@pytest.mark.parametrize(
    "flag",
    ["--requeue", "--hint=nomultithread", "--cores-per-socket=8", "--threads-per-core=1", "--uenv=prgenv", "-a1-3"],
)
def test_a_flag_of_slurms_or_of_a_sites_plugin_is_passed_on_without_a_word(flag: str) -> None:
    assert not any(note.warning for note in plan(f"--sbatch={flag}", "x").notes)


@pytest.mark.parametrize(("how", "said"), [("all", "all GPUs of its node"), ("one", "its own GPU alone")])
def test_the_reasons_say_which_devices_a_rank_sees(how: str, said: str) -> None:
    (text,) = [text for name, text, _ in explain(plan("--visibility", how, "x")) if name == "devices"]
    assert said in text


def test_paths_of_the_output_are_absolute_and_their_patterns_slurms() -> None:
    made = plan("-o", "out/%x-%j.txt", "-e", "/scratch/e", "--chdir", "sub", "x")

    assert header(made)["output"] == "/home/ada/project/sub/out/%x-%j.txt"
    assert header(made)["error"] == "/scratch/e"
    assert made.working_directory == "/home/ada/project/sub"


def test_what_the_user_asks_for_wins_and_the_plan_says_so() -> None:
    made = plan("--master-addr", "head", "--master-port", "29400", "--env", "RES_OPTIONS=x", "y")

    assert (made.rendezvous.address, made.rendezvous.port) == ("head", 29400)
    assert made.rendezvous.address_reason.text == made.rendezvous.port_reason.text == "set by you"
    assert {each.name: each.value for each in made.variables}["RES_OPTIONS"] == "x"


def test_an_address_that_is_merely_found_is_no_wish() -> None:
    found = msgspec.structs.replace(FACTS, environment={"MASTER_ADDR": "login1", "MASTER_PORT": "1234"})

    assert (plan("x", facts=found).rendezvous.address, plan("x", facts=found).rendezvous.port) == (None, None)


@pytest.mark.parametrize(
    ("found", "words", "said", "warning"),
    [
        ({"MASTER_ADDR": "h:29500"}, (), "MASTER_ADDR=h:29500 in your environment holds a port", True),
        ({"MASTER_ADDR": "login1"}, (), "MASTER_ADDR=login1 in your environment is not used", False),
        ({"RANK": "3", "PMI_RANK": "1"}, (), "RANK, PMI_RANK in your environment come from another launch", False),
        ({"MASTER_ADDR": "h:29500"}, ("--master-addr", "h"), None, False),
        ({}, (), None, False),
    ],
)
def test_what_another_launch_left_behind_is_named(
    found: dict[str, str], words: tuple[str, ...], said: str | None, warning: bool
) -> None:
    made = plan(*words, "x", facts=msgspec.structs.replace(FACTS, environment=found))

    notes = [(note.text, note.warning) for note in made.notes if "in your environment" in note.text]
    assert len(notes) == (said is not None)
    assert all(text.startswith(said or "") and warned == warning for text, warned in notes)


def test_what_a_queued_job_has_not_and_a_run_has_is_named_in_one_line() -> None:
    shell = {"PYTHONPATH": "/lib", "HF_HOME": "/hf", "CONDA_PREFIX": "/conda", "LANG": "C", "NCCL_DEBUG": "INFO"}
    facts = msgspec.structs.replace(FACTS, environment=shell)

    def behind(*words: str, stream: bool = False) -> list[str]:
        notes = plan("-N2", *words, "--", "python", "x.py", facts=facts, stream=stream).notes
        return [note.text for note in notes if "queued job" in note.text]

    variables, conda = behind("--env", "NCCL_DEBUG")
    assert variables.startswith("a queued job starts without these of your shell")
    assert "HF_HOME, PYTHONPATH (--env HF_HOME --env PYTHONPATH passes on, --export ALL everything)" in variables
    assert "the conda environment /conda is not activated in a queued job (--conda /conda does it)" in conda
    assert behind("--export", "ALL") == []
    assert behind(stream=True) == []


def test_a_range_of_ports_that_was_asked_for_is_set_by_you() -> None:
    made = plan("--port-range", "25000-25010", "x")

    assert made.rendezvous.port_reason.text.startswith("set by you")
    assert (made.rendezvous.port_low, made.rendezvous.port_high) == (25000, 25010)


def test_a_flag_of_the_step_may_be_written_with_a_blank() -> None:
    assert [str(flag.word) for flag in plan("--srun=--uenv pytorch", "x").step_flags] == ["--uenv=pytorch"]


def test_a_python_that_only_this_shell_finds_is_named_by_its_path() -> None:
    assert plan("python3", "train.py").command == ("/home/ada/env/bin/python", "train.py")
    assert plan("train.py").command == ("/home/ada/env/bin/python", "train.py")
    assert plan("--module", "python/3.11", "python", "train.py").command[0] == "python"
    assert plan("--venv", "/v", "python", "train.py").command[0] == "python"


def test_the_active_environment_is_activated_in_the_job() -> None:
    active = Facts(environment={"VIRTUAL_ENV": "/home/ada/env"}, python="/home/ada/env/bin/python")
    made = plan("python", "train.py", facts=active)

    assert [each.words for each in made.prelude] == [(".", "/home/ada/env/bin/activate")]
    assert plan("--venv", "none", "python", "train.py", facts=active).prelude == ()


def test_the_same_launch_has_the_same_digest_and_another_has_another() -> None:
    assert digest_of(plan("-N", "2", "x")) == digest_of(plan("-N", "2", "x"))
    assert digest_of(plan("-N", "2", "x")) != digest_of(plan("-N", "3", "x"))


@pytest.mark.parametrize(
    ("text", "count", "gpu_type"),
    [
        ("gpu:4", 4, None),
        ("gpu:volta:2", 2, "volta"),
        ("gpu:volta", 1, "volta"),
        ("gpu", 1, None),
        ("nvme:1,gpu:a:2,gpu:b:1", 3, "a"),
        ("fpga:big:1,gpu:2,gpu:b:1", 3, "b"),
        ("gres/gpu=3", 3, None),
        ("gres/gpu:a=3", 3, "a"),
        ("tmpfs:10G", None, None),
        ("gpu:4(S:0-1)", 4, None),
    ],
)
def test_gpus_are_found_in_a_list_of_generic_resources(text: str, count: int | None, gpu_type: str | None) -> None:
    assert (gpus_in_gres(text), gpu_type_in_gres(text)) == (count, gpu_type)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ((), {}),
        (("--venv", "none"), {}),
        (("--venv", "/v/"), {"PATH": "/v/bin:/bin", "VIRTUAL_ENV": "/v"}),
        (("--conda", "/c"), {"PATH": "/c/bin:/bin", "CONDA_PREFIX": "/c"}),
    ],
)
def test_ranks_of_this_machine_have_the_environment_that_was_named(
    words: tuple[str, ...], variables: dict[str, str]
) -> None:
    """One that is active is in their PATH already."""
    facts = msgspec.structs.replace(FACTS, environment={"PATH": "/bin", "VIRTUAL_ENV": "/home/ada/env"})
    made = plan(*words, "-g", "0", "--", "python", "train.py", launcher="local", facts=facts)
    assert {each.name: each.value for each in made.variables if each.name in _OF_A_PLACE} == variables


_OF_A_PLACE = {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX"}


@given(st.text())
def test_no_flag_is_a_traceback(text: str) -> None:
    try:
        split_flag(text)
        absorb_flags(Request(command=("x",), sbatch=(text,)))
    except MusterError as error:
        assert error.message  # noqa: PT017  # that nothing else is raised is what is tested


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])))
def test_a_template_keeps_every_byte_but_its_placeholders(text: str) -> None:
    word = template("{job_id}" + text)

    assert isinstance(word, Template)
    assert word.filled({"job_id": "7", "run_dir": "/r", "node_tmp": "/t"}).startswith("7")
    assert quote(word).startswith('"$muster_job"')


def test_a_script_tests_only_the_sizes_that_its_own_lines_depend_on() -> None:
    alone = plan("-N", "1", "-A", "g123", "-t", "10", "python", "x.py", site="clariden")
    many = plan("-N", "2", "-A", "project_465000000", "-t", "10", "python", "x.py", site="lumi")

    assert not [each for each in alone.conditions if "NCCL_NET " in each.sentence]
    assert [each.holds for each in many.conditions if "NCCL_SOCKET_IFNAME" in each.sentence] == [
        '[ "$muster_nodes" -ge 2 ]'
    ]


def test_a_file_of_one_rank_needs_no_labels() -> None:
    assert "--label" in job_script(plan("-N", "2", "--ntasks-per-node", "2", "x"))
    assert "--label" not in job_script(plan("-N", "2", "--ntasks-per-node", "2", "--per-rank-files", "x"))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python -m package.train --lr 1", "package.train"),
        ("uv run python3.11 -u -m package", "package"),
        ("numactl -m 0 python x/train.py -m 3", "train"),
        ("numactl -m 0 ./program", "numactl"),
        ("python -m", "python"),
    ],
)
def test_the_job_has_the_name_of_what_runs(command: str, name: str) -> None:
    assert plan("-N2", "--", *command.split()).job_name == name


def test_a_line_break_in_the_name_of_a_file_is_none_of_the_job() -> None:
    planned = plan("-N2", "--", "python", "a\nb\x7f ü.py")
    assert planned.job_name == "a-b- ü"
    assert "--job-name='a-b- ü'" in job_script(planned).replace('"', "'")
    assert planned.command[-1] == "a\nb\x7f ü.py", "the rank gets it word for word"


def test_a_number_is_a_command_where_nothing_shows_that_it_is_none() -> None:
    assert plan("-g", "1", "--", "7z", "--", "x").command[0] == "7z"
    assert plan("-g", "1", "--", "0.1").command[0] == "0.1"


def test_a_list_of_nodes_may_be_a_file() -> None:
    for nodes in ("./nodes", "n[1-4],m7"):
        made = plan("-w", nodes, "-g", "1", "--", "python", "train.py")
        assert {directive.name: directive.value for directive in made.directives}["nodelist"] == nodes


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("4", "--mem 4: 4 MiB of a node are few for a training; --mem 4G is 4 GiB"),
        ("512M", "--mem 512M: 512 MiB of a node are few for a training; --mem 512G is 512 GiB"),
        ("1G", ""),
        ("0", ""),
    ],
)
def test_memory_that_is_little_for_a_training_is_read_aloud(size: str, said: str) -> None:
    texts = [
        note.text for note in plan("--mem", size, "--", "x").notes if note.warning and "MiB of a node" in note.text
    ]
    assert texts == ([said] if said else [])
