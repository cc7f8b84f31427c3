"""Which rules speak in a file, and how loudly: `[tool.muster.lint]` of pyproject.toml, `[lint]` of .muster.toml.

The file that counts is the nearest one upward from the file that is looked at; .muster.toml before pyproject.toml.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from muster.errors import RequestError, UnknownName
from muster.older import tomllib
from muster_lint.rule import all_rules
from muster_lint.values import LintFinding, Severity

_OFF = "off"
_OTHERS = ("not-python", "not-read", "template", "bad-ignore")
"""The findings that no function of a rule makes."""


class LintTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The table as it is written."""

    select: tuple[str, ...] = ()
    """The rules that speak: names, patterns of names, severities. Empty: all but those of style."""

    ignore: tuple[str, ...] = ()
    """The rules that do not speak."""

    per_file_ignores: Mapping[str, tuple[str, ...]] = {}
    """By a pattern of paths, beside the file that holds the table."""

    severity: Mapping[str, str] = {}
    """Another severity for a rule, or off."""

    fail_on: str | None = None
    """The least severe finding that makes the exit status 1."""

    shellcheck: bool = True
    """Whether shellcheck is asked, where it is installed."""


class LintSettings(msgspec.Struct, frozen=True):
    """A table, and where it stands."""

    table: LintTable = LintTable()
    path: Path | None = None

    def takes(self, finding: LintFinding) -> bool:
        """Tell whether a finding is reported; one of style only where it is asked for."""
        table = self.table
        ignored = [*table.ignore, *self._ignored_in(finding.path)]
        is_default = finding.severity is not Severity.STYLE or finding.rule == "template"  # else it seems to be judged
        is_wanted = _fits(finding, table.select) if table.select else is_default
        return is_wanted and not _fits(finding, ignored)

    def judged(self, finding: LintFinding) -> LintFinding | None:
        """Return a finding with the severity that the table gives its rule; None where it is off or ignored."""
        for pattern, severity in self.table.severity.items():
            if fnmatch.fnmatchcase(finding.rule, pattern):
                if severity == _OFF:
                    return None
                finding = msgspec.structs.replace(finding, severity=Severity(severity))
                break
        return finding if self.takes(finding) else None

    def fails(self, finding: LintFinding) -> bool:
        """Tell whether a finding makes the exit status 1: it is certain, and severe enough."""
        return finding.is_certain and finding.severity.rank <= Severity(self.table.fail_on or Severity.HANGS).rank

    def _ignored_in(self, path: str) -> Iterable[str]:
        if self.path is None or path == "-":
            return ()
        try:
            relative = Path(path).absolute().relative_to(self.path.parent.absolute()).as_posix()
        except ValueError:
            return ()
        patterns = self.table.per_file_ignores
        return [name for pattern, names in patterns.items() if _is_at(relative, pattern) for name in names]


def _is_at(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern, or lies below a folder that does; without a slash it is one of names."""
    if "/" not in pattern.rstrip("/"):
        return any(fnmatch.fnmatchcase(part, pattern.rstrip("/")) for part in path.split("/"))
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"{pattern.rstrip('/')}/*")


def _fits(finding: LintFinding, names: Iterable[str]) -> bool:
    return any(name == finding.severity or fnmatch.fnmatchcase(finding.rule, name) for name in names)


def settings_for(path: str, typed: LintTable) -> LintSettings:
    """Return what counts for a file; what was typed stands above what is written."""
    folder = Path.cwd() if path == "-" else Path(path).absolute().parent
    written = _nearest(folder)
    table = written.table
    if typed.select:
        table = msgspec.structs.replace(table, select=typed.select)
    table = msgspec.structs.replace(
        table, ignore=(*table.ignore, *typed.ignore), fail_on=typed.fail_on or table.fail_on
    )
    return LintSettings(table, written.path)


def forget_settings() -> None:
    """Read the files of settings again: somebody may have changed them."""
    _nearest.cache_clear()


def check_names(table: LintTable, where: str) -> None:
    """Raise where a table names no rule, or no severity."""
    known = [*(rule.name for rule in all_rules()), *_OTHERS]
    names = [*table.select, *table.ignore, *(name for names in table.per_file_ignores.values() for name in names)]
    for name in [*names, *table.severity]:
        is_severity = name in set(Severity) and name not in table.severity
        is_of_others = name.startswith(("site-", "SC"))
        if not (is_severity or is_of_others or any(fnmatch.fnmatchcase(rule, name) for rule in known)):
            error = UnknownName("rule", name, known, listed_by="muster lint --rules")
            raise RequestError(f"{where}: {error.message}", error.hint)
    severities = [severity.value for severity in Severity]
    for severity in [*table.severity.values(), *filter(None, [table.fail_on])]:
        if severity not in severities and not (severity == _OFF and severity != table.fail_on):
            raise RequestError(
                f"{where}: {severity!r} is not a severity", hint=f"one of {', '.join(severities)}, {_OFF}"
            )


@cache
def _nearest(folder: Path) -> LintSettings:
    """Return the settings of a folder, or of the nearest one above it."""
    for name, keys in ((".muster.toml", ("lint",)), ("pyproject.toml", ("tool", "muster", "lint"))):
        file = folder / name
        content = _table_of(file, keys) if file.is_file() else None
        if content is not None:
            return LintSettings(_read_table(content, file), file)
    return LintSettings() if folder == folder.parent else _nearest(folder.parent)


def _table_of(file: Path, keys: tuple[str, ...]) -> Any:
    try:
        content: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", hint="correct the file, or remove it") from None
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _read_table(content: Any, file: Path) -> LintTable:
    try:
        table = msgspec.convert(content, LintTable)
    except msgspec.ValidationError as error:
        hint = f"it takes {', '.join(LintTable.__struct_encode_fields__)}"
        raise RequestError(f"{file}: the table of lint is wrong: {error}", hint=hint) from None
    check_names(table, str(file))
    return table
