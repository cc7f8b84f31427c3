"""Small parts of lint and port: each condition by the smallest value that it decides on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from muster.cli.app import main
from muster.errors import RequestError
from muster_lint import read as reading
from muster_lint.fix import _helps, fixed_text
from muster_lint.ignore import wrong_marks
from muster_lint.job import BatchScript
from muster_lint.look import lint_source
from muster_lint.port.carry import carry
from muster_lint.port.target import facts_of
from muster_lint.read import _is_batch, read_source, source_of
from muster_lint.report import _MOST_OF_A_RULE, _within_sight, grouped
from muster_lint.rules.names import _is_near
from muster_lint.settings import LintSettings, LintTable
from muster_lint.site import _ask, _gpu_type, _modules, _number, seconds_of
from muster_lint.values import Edit, LintFinding, Severity, TextSpan
from muster_lint.verbs.port import _reader_beside
from port.scripts import read
from sites.profiles import bundled


def _finding(rule: str, severity: Severity = Severity.BREAKS, message: str = "m", *edits: Edit) -> LintFinding:
    place = TextSpan(1, 1, 1, 2)
    return replace(LintFinding(rule, severity, "f", place, message, "why", "instead", "source"), edits=edits)


def test_a_file_is_read_up_to_the_size_of_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job"
    file.write_text("srun x")
    monkeypatch.setattr(reading, "_LARGEST_BYTES", 6)
    assert read_source(str(file)).text == "srun x"
    assert _is_batch(file)
    monkeypatch.setattr(reading, "_LARGEST_BYTES", 5)
    assert not _is_batch(file)
    with pytest.raises(RequestError, match="not a script that a person wrote"):
        read_source(str(file))
    assert not _is_batch(tmp_path / "gone")


def test_a_file_that_a_script_names_is_read_from_here_or_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/a").write_text("beside")
    monkeypatch.chdir(tmp_path)
    reader = _reader_beside(str(tmp_path / "beside/job.sh"))
    assert (reader("a"), reader("gone"), reader("."), reader(str(tmp_path / "beside/a"))) == (
        "beside",
        None,
        None,
        "beside",
    )
    (tmp_path / "a").write_text("here")
    assert reader("a") == "here"
    monkeypatch.setattr("muster_lint.verbs.port._LARGEST_BYTES", 4)
    assert reader("a") is None
    monkeypatch.setattr("muster_lint.verbs.port._LARGEST_BYTES", 5)
    assert reader("a") == "here"


def test_findings_of_one_rule_are_one_where_they_say_the_same_or_are_many() -> None:
    def groups(count: int) -> int:
        return len(grouped([_finding("r", message=str(number)) for number in range(count)]))

    assert (groups(1), groups(_MOST_OF_A_RULE), groups(_MOST_OF_A_RULE + 1)) == (1, _MOST_OF_A_RULE, 1)
    assert len(grouped([_finding("r"), _finding("r")])) == 1
    assert len(grouped([_finding("r"), _finding("s")])) == 2


def test_a_very_long_line_is_cut_around_its_place() -> None:
    assert _within_sight("x" * 160, " ", 2) == ("x" * 160, " ")
    assert _within_sight("x" * 161, " ", 2) == ("x" * 140 + "…", " ")
    line, lead = _within_sight("a" * 99 + "B" + "c" * 200, " " * 99, 100)
    assert (line[0], line[len(lead)]) == ("…", "B")


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("seed", "Seed", True),
        ("SEEDS", "seeds", True),
        ("seed", "seed", False),
        ("abc", "Abc", False),
        ("seedling", "seed", True),
        ("seed_of_them", "seed", False),
        ("seed", "seeds", True),
        ("sead", "seed", True),
        ("sede", "seed", True),
        ("seed", "need", True),
        ("seed", "deep", False),
        ("epochs", "epoch", True),
    ],
)
def test_a_name_is_near_another_by_one_letter(one: str, other: str, near: bool) -> None:
    assert _is_near(one, other) is near


def test_an_edit_helps_if_its_finding_is_gone_and_nothing_worse_came() -> None:
    broken, style = _finding("a"), _finding("b", Severity.STYLE)
    assert _helps([broken], [], [broken])
    assert not _helps([broken], [broken], [broken])
    assert not _helps([broken, broken], [broken, broken], [broken])
    assert _helps([broken, broken], [broken], [broken])
    assert not _helps([broken], [_finding("c")], [broken])
    assert not _helps([broken], [_finding("c", Severity.HANGS)], [broken])
    assert _helps([broken], [style], [broken])
    assert _helps([broken, _finding("c")], [_finding("c")], [broken])


def test_edits_that_touch_one_place_count_once_and_insertions_all_count() -> None:
    def text(*edits: Edit) -> str:
        return fixed_text("abc\n", [_finding("r", Severity.BREAKS, "m", *edits)])

    first, second = Edit(TextSpan(1, 1, 1, 1), "1"), Edit(TextSpan(1, 1, 1, 1), "2")
    assert text(first, second) == "12abc\n"
    assert text(Edit(TextSpan(1, 1, 1, 3), "x"), Edit(TextSpan(1, 2, 1, 4), "y")) == "xc\n"
    assert text(Edit(TextSpan(1, 1, 1, 2), "x"), Edit(TextSpan(1, 2, 1, 4), "y")) == "xy\n"


@pytest.mark.parametrize(
    ("mark", "is_wrong"),
    [
        ("ignore[one-cpu] because it is one", False),
        ("ignore[one-cpu]", True),
        ("ignore[no-such] because", True),
        ("ignore[site-time] because", False),
        ("ignore[template] because", False),
    ],
)
def test_a_mark_has_a_rule_and_a_reason(mark: str, is_wrong: bool) -> None:
    assert bool(list(wrong_marks("f", f"# muster: {mark}\n"))) is is_wrong


def _job(header: str, body: str = "") -> BatchScript:
    lines = "".join(f"#SBATCH {word}\n" for word in header.split())
    return read(f"#!/bin/bash\n{lines}{body}srun python a.py\n")[0]


def test_what_a_script_asks_of_a_site_is_read_from_its_header() -> None:
    nothing = _ask(_job("--job-name=x"))
    assert (nothing.nodes, nothing.gpus_per_node, nothing.ntasks_per_node, nothing.time_s) == (1, 0, 1, None)
    asked = _ask(_job("--nodes=2 --ntasks-per-node=4 --gres=gpu:a100:4 --cpus-per-task=8 --time=10 --mem=4G --qos=q"))
    assert (asked.nodes, asked.gpus_per_node, asked.gpu_type, asked.ntasks_per_node) == (2, 4, "a100", 4)
    assert (asked.cpus_per_task, asked.time_s, asked.qos) == (8, 600, "q")
    assert [_gpu_type(*each) for each in (("gpu:4", None), (None, "h100:4"), (None, "4"), (None, None))] == [
        None,
        "h100",
        None,
        None,
    ]
    assert [_number(text) for text in (None, "", "4", "x", "²", "1" * 10)] == [None, None, 4, None, None, None]
    assert [seconds_of(text) for text in (None, "", "x", "1")] == [None, None, None, 60]
    assert _modules(_job("", "module load a $B\nml add c\nmodule purge\nother load d\n")) == ("a", "c")


def test_a_python_file_that_is_none_is_told_by_its_line() -> None:
    (found,) = lint_source(source_of("t.py", "x = 1\ny = (\n"))
    assert (found.rule, found.place.line) == ("not-python", 2)
    (found,) = lint_source(source_of("t.py", "x = 1\n" + "(" * 300 + ")" * 300 + "\n"))
    assert found.rule == "not-python"


_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=10\n"


@pytest.mark.parametrize(
    ("site", "header", "field", "value"),
    [
        ("marenostrum5", "--cpus-per-task=3", "cpus_per_task", None),
        ("marenostrum5", "--mem=100G", "mem", None),
        ("generic", "--cpus-per-task=3", "cpus_per_task", "3"),
        ("generic", "--mem=100G", "mem", "100G"),
        ("generic", "--chdir=/w", "chdir", "/w"),
        ("generic", "--chdir=.", "chdir", None),
        ("generic", "--chdir=$HOME", "chdir", None),
        ("generic", "--job-name=a", "job_name", "a"),
        ("generic", "--time=x", "time", None),
        ("generic", "--account=", "account", None),
    ],
)
def test_what_becomes_of_a_size_or_a_place_at_another_site(
    site: str, header: str, field: str, value: str | None
) -> None:
    head = _HEAD.replace("#SBATCH --time=10\n", "") if "time" in header else _HEAD
    draft = read(f"{head}#SBATCH {header}\nsrun python a.py\n")[1]
    made: Any = carry(draft, bundled(site), None, facts_of("/w", "/h", "ada"))
    assert made.draft.get(field) == value


@pytest.mark.parametrize(
    ("rule", "severity", "path", "table", "taken"),
    [
        ("r", Severity.BREAKS, "/p/a", {}, True),
        ("r", Severity.BREAKS, "/p/a", {"per-file-ignores": {"*": ["r"]}}, False),
        ("r", Severity.BREAKS, "/p/a", {"per-file-ignores": {"b": ["r"]}}, True),
        ("r", Severity.BREAKS, "/p/a", {"per-file-ignores": {"*": ["s"]}}, True),
        ("r", Severity.BREAKS, "/q/a", {"per-file-ignores": {"*": ["r"]}}, True),
        ("r", Severity.BREAKS, "-", {"per-file-ignores": {"*": ["r"]}}, True),
        ("r", Severity.BREAKS, "/p/a", {"ignore": ["r"]}, False),
        ("r", Severity.STYLE, "/p/a", {}, False),
        ("r", Severity.STYLE, "/p/a", {"select": ["r"]}, True),
        ("r", Severity.BREAKS, "/p/a", {"select": ["s"]}, False),
        ("template", Severity.STYLE, "/p/a", {}, True),
    ],
)
def test_what_a_table_takes_of_what_is_found(
    monkeypatch: pytest.MonkeyPatch, rule: str, severity: Severity, path: str, table: dict[str, Any], taken: bool
) -> None:
    monkeypatch.chdir("/")
    settings = LintSettings(convert(table, LintTable), Path("/p/pyproject.toml"))
    assert settings.takes(replace(_finding(rule, severity), path=path)) is taken


@pytest.mark.parametrize(
    ("directive", "header"),
    [
        ("--nodes 2 -p gpu", {"nodes": "2", "partition": "gpu"}),
        ("--nodes -p gpu", {"nodes": None, "partition": "gpu"}),
        ("--exclusive -p gpu", {"exclusive": None, "partition": "gpu"}),
        ("-N2 -pgpu", {"nodes": "2", "partition": "gpu"}),
        ("-N=2", {"nodes": "2"}),
        ("-N", {"nodes": None}),
        ("-H -N 2", {"hold": None, "nodes": "2"}),
    ],
)
def test_the_words_of_a_directive_are_options_with_their_values(directive: str, header: dict[str, str | None]) -> None:
    job = read(f"#!/bin/bash\n#SBATCH {directive}\ndate\n")[0]
    assert {name: each.value for name, each in job.header.items()} == header


@pytest.mark.parametrize(
    ("terminal", "variables", "form", "coloured"),
    [
        (True, {}, [], True),
        (False, {}, [], False),
        (True, {"NO_COLOR": "1"}, [], False),
        (True, {"TERM": "dumb"}, [], False),
        (True, {}, ["--json"], False),
    ],
)
def test_findings_have_colours_on_a_terminal_that_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    terminal: bool, variables: dict[str, str], form: list[str], coloured: bool,
) -> None:  # fmt: skip
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun nvidia-smi\nif\n")
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert main(["lint", str(tmp_path / "job.sh"), *form]) == 1
    assert ("\x1b[" in capsys.readouterr().out) is coloured
