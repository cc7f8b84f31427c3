"""Which rules speak in a project, and how the findings are written for programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from muster.cli.app import main
from muster_lint import shellcheck
from muster_lint.report import _described_by, grouped
from muster_lint.settings import forget_settings
from muster_lint.sources import address_of
from muster_lint.values import LintFinding, Severity, TextSpan

_SERIOUS = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks=8 --time=60
export MASTER_PORT=29500
export MASTER_ADDR=localhost
srun python train.py
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(_SERIOUS)


def _lint(*words: str) -> int:
    return main(["lint", *words])


def _rules(capsys: pytest.CaptureFixture[str], *words: str) -> set[str]:
    capsys.readouterr()
    _lint("--json", *words)
    return {each["rule"] for each in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize(("file", "head"), [(".muster.toml", "[lint]\n"), ("pyproject.toml", "[tool.muster.lint]\n")])
def test_a_project_ignores_a_rule(file: str, head: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _rules(capsys, "job.sh")
    (tmp_path / "below").mkdir()
    shutil.copy(tmp_path / "job.sh", tmp_path / "below/job.sh")
    (tmp_path / file).write_text(f'{head}ignore = ["port-*"]\n')
    forget_settings()

    assert "port-fixed" in before
    assert _rules(capsys, "job.sh") == _rules(capsys, "below/job.sh") == before - {"port-fixed"}
    _lint("job.sh")
    assert "1 of style (--select=style) or silenced by the settings" in capsys.readouterr().out


def test_the_nearest_file_counts_and_a_table_of_another_tool_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".muster.toml").write_text('[lint]\nselect = ["port-fixed"]\n')
    (tmp_path / "below").mkdir()
    (tmp_path / "below/pyproject.toml").write_text("[tool.other]\nx = 1\n")
    shutil.copy(tmp_path / "job.sh", tmp_path / "below/job.sh")
    assert _rules(capsys, "below/job.sh") == {"port-fixed"}

    (tmp_path / "below/.muster.toml").write_text('[lint]\nignore = ["port-fixed"]\n')
    forget_settings()
    assert "port-fixed" not in _rules(capsys, "below/job.sh")
    assert _rules(capsys, "below/job.sh")


@pytest.mark.parametrize("pattern", ["job.sh", "jobs/*", "jobs", "j*/job.sh"])
def test_a_rule_is_ignored_in_some_files(pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs").mkdir()
    shutil.move(str(tmp_path / "job.sh"), tmp_path / "jobs/job.sh")
    (tmp_path / "other.sh").write_text(_SERIOUS)
    (tmp_path / ".muster.toml").write_text(f'[lint.per-file-ignores]\n"{pattern}" = ["port-fixed"]\n')

    assert "port-fixed" not in _rules(capsys, "jobs/job.sh")
    assert "port-fixed" in _rules(capsys, "other.sh")


def test_a_project_changes_a_severity_and_the_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".muster.toml").write_text('[lint]\nselect = ["port-fixed"]\n')
    assert _lint("job.sh") == 0
    (tmp_path / ".muster.toml").write_text('[lint]\nselect = ["port-fixed"]\n[lint.severity]\nport-fixed = "breaks"\n')
    forget_settings()
    assert _lint("job.sh") == 1
    assert "breaks: the port 29500" in capsys.readouterr().out
    (tmp_path / ".muster.toml").write_text('[lint.severity]\nport-fixed = "off"\n')
    forget_settings()
    assert "port-fixed" not in _rules(capsys, "job.sh")


def test_the_least_severity_that_fails_is_typed_or_written(tmp_path: Path) -> None:
    words = ("--select=port-fixed", "job.sh")
    assert _lint(*words) == 0
    assert _lint("--fail-on=fragile", *words) == 1
    (tmp_path / ".muster.toml").write_text('[lint]\nfail-on = "fragile"\n')
    forget_settings()
    assert _lint(*words) == 1
    assert _lint("--fail-on=slow", *words) == 0


def test_a_severity_selects(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.sh").write_text(_SERIOUS + "A = 1\necho $A\n")
    everything = _rules(capsys, "job.sh")
    fragile = _rules(capsys, "--select", "fragile", "job.sh")
    assert "port-fixed" in fragile < everything
    assert _rules(capsys, "--ignore", "fragile", "job.sh") == everything - fragile
    assert _rules(capsys, "--select=fragile,hangs", "--ignore=port-fixed", "job.sh") >= fragile - {"port-fixed"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[lint]\nignore = ['port-fixd']\n", "no rule named 'port-fixd'"),
        ("[lint]\nignores = ['port-fixed']\n", "unknown field"),
        ("[lint]\nignore = 'port-fixed'\n", "array"),
        ("[lint]\nfail-on = 'bad'\n", "'bad' is not a severity"),
        ("[lint]\nfail-on = 'off'\n", "'off' is not a severity"),
        ("[lint.severity]\nport-fixed = 'bad'\n", "'bad' is not a severity"),
        ("[lint.severity]\nfragile = 'breaks'\n", "no rule named 'fragile'"),
        ("[lint\n", "cannot be read"),
    ],
)
def test_a_wrong_table_is_named(text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".muster.toml").write_text(text)
    assert _lint("job.sh") == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert ".muster.toml" in said
    assert "\nhint: " in said


def test_a_wrong_name_that_is_typed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _lint("--select=port-fixd", "job.sh") == 2
    assert "port-fixed" in capsys.readouterr().err


def test_a_folder_stands_for_its_batch_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/b/job.slurm", ".git/job.sh", "notes.txt", "a/tool.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(_SERIOUS if "job" in name else "#!/bin/bash\necho srun\n")
    _lint("--format=short", ".")
    files = {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()}
    assert {str(Path(file)) for file in files} == {"job.sh", "a/b/job.slurm"}

    (tmp_path / "empty").mkdir()
    assert _lint("empty") == 2
    assert "no batch script in empty" in capsys.readouterr().err


def test_one_file_does_not_end_the_look_at_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary.sh").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "deep.sh").write_text("#!/bin/bash\nsrun true\n" + "$(" * 500)  # more costs shellcheck a second
    (tmp_path / "good.sh").write_text(_SERIOUS)

    status = _lint("--format=short", "binary.sh", "missing.sh", "job.sh", "deep.sh", "good.sh")

    said = capsys.readouterr()
    assert status == 2
    assert {"job.sh", "good.sh"} <= {line.partition(":")[0] for line in said.out.splitlines()}
    assert "binary.sh" in said.err
    assert "missing.sh" in said.err


def test_a_short_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    _lint("--format=short", "--select=port-fixed", "job.sh")
    assert capsys.readouterr().out == "job.sh:3:8: fragile: the port 29500 is the same in every job [port-fixed]\n"


def _finding(rule: str, line: int, message: str = "m") -> LintFinding:
    return LintFinding(rule, Severity.FRAGILE, "job.sh", TextSpan(line, 1, line, 2), message, "w", "i", "s")


def test_the_same_thing_is_said_once_in_a_file() -> None:
    same = [_finding("a", line) for line in (1, 5, 9)]
    often = [_finding("b", line, f"m{line}") for line in (2, 3, 4, 6)]
    few = [_finding("c", line, f"m{line}") for line in (7, 8)]

    groups = grouped([*same, *often, *few])

    assert [(each.rule, each.place.line, [place.line for place in each.also]) for each in groups] == [
        ("a", 1, [5, 9]),
        ("b", 2, [3, 4, 6]),
        ("c", 7, []),
        ("c", 8, []),
    ]


def test_a_hundred_late_directives_are_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = "".join(f"#SBATCH --comment=c{number}\n" for number in range(100))
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n#SBATCH -N1\nhostname\n{late}")
    _lint("--select=directive-after-command", "job.sh")
    said = capsys.readouterr().out
    assert said.count("[directive-after-command]") == 1
    assert "and 99 more" in said


def test_github_writes_beside_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    _lint("--format=github", "--select=port-fixed", "job.sh")
    line = capsys.readouterr().out
    assert line.startswith("::warning file=job.sh,line=3,col=8,endLine=3,title=muster lint%3A port-fixed::fragile: ")
    assert "%25 9999" in line


def test_gitlab_gets_a_code_quality_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--format=gitlab", "--select=port-fixed", "job.sh")
    _lint(*words)
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["check_name"], entry["severity"], entry["location"]) == (
        "port-fixed", "minor", {"path": "job.sh", "lines": {"begin": 3}},
    )  # fmt: skip
    (tmp_path / "job.sh").write_text(_SERIOUS.replace("export", "\nexport", 1))
    _lint(*words)
    (moved,) = json.loads(capsys.readouterr().out)
    assert moved["fingerprint"] == entry["fingerprint"]
    assert moved["location"]["lines"]["begin"] == 4


def test_sarif_says_where_a_rule_is_explained_and_which_file_was_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binary.sh").write_bytes(b"\0")
    _lint("--format=sarif", "job.sh", "binary.sh")
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert rules["srun-survivors"]["helpUri"] == (
        "https://github.com/SchedMD/slurm/blob/3bf22c447ad1/doc/man/man1/srun.1"
    )
    assert not run["invocations"][0]["executionSuccessful"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "binary.sh"


@pytest.mark.parametrize(
    ("source", "address"),
    [("bash(1)", {}), ("shellcheck SC2154", {"helpUri": "https://www.shellcheck.net/wiki/SC2154"})],
)
def test_a_finding_of_another_program_is_described_with_its_address(source: str, address: dict[str, str]) -> None:
    told = _described_by(LintFinding("r", Severity.BREAKS, "f", TextSpan(1, 1, 1, 2), "m", "why", "instead", source))
    assert told == {"id": "r", "shortDescription": {"text": "r"}, "fullDescription": {"text": "why"}, **address}


@pytest.mark.parametrize(("end", "shown"), [(3, 4), (4, 4), (9, 9)])
def test_a_finding_of_shellcheck_has_a_width(end: int, shown: int) -> None:
    comment = shellcheck._Comment("f", 2, 2, 3, end, next(iter(shellcheck.CODES)), "m.")
    assert shellcheck._finding(comment).place == TextSpan(2, 3, 2, shown)


def test_a_source_that_is_no_file_has_no_address() -> None:
    assert address_of("bash(1), the sections SIGNALS") is None
    assert address_of("apptainer/apptainer docs, GPU Support (--nv, --rocm)") is None
    assert address_of("shellcheck SC2154") == "https://www.shellcheck.net/wiki/SC2154"


_STUB = """\
#!/bin/sh
echo "$@" > asked
for file; do :; done
cat <<END
{"comments":[{"file":"$file","line":3,"endLine":3,"column":1,"endColumn":7,"level":"warning","code":2320,
"message":"To redirect stdout+stderr, 2>&1 must be last.","fix":null}]}
END
"""


def test_shellcheck_is_asked_for_what_matters_to_a_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/shellcheck").write_text(_STUB)
    (tmp_path / "tools/shellcheck").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:/usr/bin:/bin")

    assert "SC2320" in _rules(capsys, "job.sh")
    asked = (tmp_path / "asked").read_text()
    assert "SC2086" not in asked
    assert asked.endswith("-- job.sh\n")
    assert "SC2320" not in _rules(capsys, "--ignore=SC*", "job.sh")
    (tmp_path / "job.sh").write_text(
        _SERIOUS.replace("export MASTER_PORT", "# muster: ignore[SC2320] wanted\nexport MASTER_PORT").replace(
            "#SBATCH", "#SBATCH", 1
        )
    )
    (tmp_path / "tools/shellcheck").write_text(_STUB.replace('"line":3,', '"line":4,'))
    assert "SC2320" not in _rules(capsys, "job.sh")
    (tmp_path / "job.sh").write_text(_SERIOUS)
    (tmp_path / ".muster.toml").write_text("[lint]\nshellcheck = false\n")
    forget_settings()
    assert "SC2320" not in _rules(capsys, "job.sh")


@pytest.mark.parametrize("stub", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho '{}'\n", "#!/no/such/shell\n"])
def test_a_shellcheck_that_fails_finds_nothing(
    stub: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/shellcheck").write_text(stub)
    (tmp_path / "tools/shellcheck").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/tools:/usr/bin:/bin")
    assert "port-fixed" in _rules(capsys, "job.sh")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_a_real_shellcheck_is_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text(_SERIOUS + 'if [ -z "SLURM_JOB_ID" ]; then\n  date\nfi\n')
    _lint("--json", "job.sh")
    found = {each["rule"]: each for each in json.loads(capsys.readouterr().out)}
    assert "SC2157" in found
    assert found["SC2157"]["line"] == 6


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_a_comparison_of_texts_is_told_where_numbers_would_end_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right = "if [[ $# > 0 ]]; then date; fi\n"
    (tmp_path / "job.sh").write_text(_SERIOUS + right + "if [[ $# > 10 ]]; then date; fi\n")
    (tmp_path / "other.sh").write_text(_SERIOUS + right + "echo end\nif [ $? -ne 0 ]; then exit 1; fi\n")
    _lint("--json", "job.sh", "other.sh")
    first = _SERIOUS.count("\n") + 1
    found = [(each["rule"], each["line"] - first) for each in json.loads(capsys.readouterr().out)]
    assert [each for each in found if each[0] in {"SC2071", "SC2320"}] == [("SC2071", 1), ("SC2320", 2)]
