"""Command lines are read back as they were made: what stands before, the options, the command."""

from __future__ import annotations

import random

import pytest

from muster.words.chain import read_chain, read_launcher, split_wrappers
from muster.words.programs import MODULES, PROGRAMS, KnownProgram
from muster.words.shell_text import commands_of

_WRAPPERS = [
    "env", "env A=1", "env -u X B=2", "env -C /x", "uv run", "uv run --extra gpu", "uv --project p run --with rich",
    "poetry run", "conda run -n e", "conda run --no-capture-output -p /e", "micromamba run -r /r -n e", "pdm run -p d",
    "numactl -N 0 -m 0", "numactl --cpunodebind=0", "time -v", "nice -n 5", "nice -10", "timeout -k 5 30m", "hatch run",
    "taskset -c 0-3", "chrt -f 9", "stdbuf -oL", "nohup", "exec", "command", "setsid", "pixi run -e x", "ionice -c 2",
    "sudo -u ada",
]  # fmt: skip
_COMMANDS = ["./a.out", "/bin/app 1", "train.py --lr 1 -n 4", "python -u x.py --nodes 2", "hostname"]
_MAY_START = ["srun", "mpirun", "mpiexec", "torchrun", "deepspeed", "ft_launcher", "composer", "aprun", "horovodrun"]


def _options(chance: random.Random, program: KnownProgram) -> list[tuple[list[str], tuple[str, str | None]]]:
    """Return some options of a program: the words of each, and what has to be read."""
    made: list[tuple[list[str], tuple[str, str | None]]] = []
    for name in chance.sample(sorted(program.valued - program.pairs), k=min(4, len(program.valued))):
        value = chance.choice(["1", "x=y", "a,b", "h:1"])
        forms = [[name, value]]
        forms += [[f"{name}={value}"]] if name.startswith("--") else []
        forms += [[f"{name}1"]] if len(name) == 2 else []
        words = chance.choice(forms)
        made.append((words, (name, "1" if words == [f"{name}1"] else value)))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_every_word_is_read_where_it_was_put(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    for _ in range(250):
        name = chance.choice(_MAY_START)
        options = _options(chance, PROGRAMS[name])
        before = " ".join(chance.sample(_WRAPPERS, k=chance.randrange(3))).split()
        command = chance.choice(_COMMANDS).split()
        own = [name, *(word for words, _ in options for word in words)]
        line = [*before, *own, *command]

        found_before, rest = split_wrappers(line)
        read = read_launcher(rest)

        assert found_before == tuple(before), line
        assert read is not None, line
        link, program = read
        assert [(option.name, option.value) for option in link.options] == [told for _, told in options], line
        assert rest[link.end :] == tuple(command), line
        assert program.launcher == PROGRAMS[name].launcher


@pytest.mark.parametrize("before", _WRAPPERS)
def test_a_program_without_ranks_starts_none(before: str) -> None:
    assert split_wrappers([*before.split(), "python", "x.py"]) == (tuple(before.split()), ("python", "x.py"))
    assert read_launcher(["python", "x.py"]) is None
    assert read_launcher(["python", "-m", "pkg.torchrun"]) is None


@pytest.mark.parametrize("name", sorted(name for name, program in PROGRAMS.items() if program.kind == "starter"))
def test_a_starter_is_a_launcher_of_the_command_and_a_program_of_a_chain(name: str) -> None:
    words = [name, *sorted(PROGRAMS[name].verbs)[:1], "x.py"]

    read = read_launcher(words)

    assert read is not None
    assert (read[0].kind, read[1].launcher in {"srun", "torchrun"}) == ("starter", True)
    assert read_chain(words)[0].kind == "program"


@pytest.mark.torch
@pytest.mark.parametrize("name", ["torchrun", "accelerate"])
def test_the_options_of_an_agent_take_a_word_where_its_own_reader_says_so(name: str) -> None:
    """The table lacks none that has a value, and names none that has not."""
    if name == "torchrun":
        from torch.distributed.run import get_args_parser as parser_of
    else:
        from accelerate.commands.launch import launch_command_parser as parser_of
    actions = [action for action in parser_of()._actions if action.option_strings]
    with_value = {text for action in actions if action.nargs is None for text in action.option_strings}
    without = {text for action in actions if action.nargs == 0 for text in action.option_strings}

    assert len(with_value) > 20
    assert with_value - PROGRAMS[name].valued == set()
    assert without & PROGRAMS[name].valued == set()
    assert MODULES["torch.distributed.run"] is PROGRAMS["torchrun"]


@pytest.mark.parametrize("words", ["singularity exec $A", "singularity exec $A $B", "srun apptainer run $A"])
def test_a_command_may_end_in_a_word_that_nobody_can_read(words: str) -> None:
    parts = words.split()
    assert read_chain(parts, lambda index: parts[index].startswith("$"))


@pytest.mark.parametrize(
    ("words", "end", "options", "hidden"),
    [
        ("singularity exec $A $B python x.py", 4, (), (2,)),
        ("singularity exec $A name x.py", 3, (), ()),
        ("singularity exec $A x.sif name", 4, (), (2,)),
        ("singularity exec $A $B", 3, (), ()),
        ("mpirun -mca btl tcp ./x", 4, (("-mca", "btl tcp"),), ()),
        ("mpirun -mca btl", 2, (("-mca", None),), ()),
    ],
)
def test_a_word_belongs_to_the_program_or_begins_its_command(
    words: str, end: int, options: tuple[tuple[str, str | None], ...], hidden: tuple[int, ...]
) -> None:
    parts = words.split()

    link = read_chain(parts, lambda index: parts[index].startswith("$"))[0]

    assert (link.end, link.hidden) == (end, hidden)
    assert tuple((option.name, option.value) for option in link.options) == options


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("torchrun --new 3 x.py", 3),  # the script of the ranks comes later: 3 is the value
        ("torchrun --new=3 name x.py", 2),
        ("torchrun --new x.py", 2),
        ("torchrun --new name", 2),
        ("torchrun --no-python name x.py", 2),
    ],
)
def test_an_option_that_the_table_lacks_has_a_value_where_a_script_comes_later(words: str, end: int) -> None:
    read = read_launcher(words.split())

    assert read is not None
    assert read[0].end == end


def test_what_begins_with_a_hyphen_is_no_command_behind_a_wrapper() -> None:
    assert split_wrappers(["env", "--", "-x", "y"]) == ((), ("env", "--", "-x", "y"))
    assert split_wrappers(["uv", "run", "-m", "x"]) == (("uv", "run"), ("python", "-m", "x"))


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("cat <<EOF\ntorchrun a\nEOF\npython b", ["cat", "python"]),
        ("cat <<-'END' > file\n  srun a\n  END\npython b", ["cat", "python"]),
        ("read x <<< text\npython b", ["read", "python"]),
        ("echo a # << \t\npython b", ["echo", "python"]),
        ("A=1 python b; if test -f x; then\n  srun c \\\n  d\nfi", ["python", "test", "srun", "fi"]),
    ],
)
def test_the_commands_of_a_text_are_not_those_of_a_document_in_it(text: str, commands: list[str]) -> None:
    assert [words[0] for words in commands_of(text)] == commands
