"""Which profiles there are, from the top of each file: enough to list them and to recognise where we are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from muster.facts import Facts
from muster.sites.match import Evidence
from muster.sites.text import parse_toml, read_text

__all__ = ["BUNDLED", "DEFAULT_SITE", "Head", "SearchPath", "evidence_from", "heads"]

BUNDLED = Path(__file__).parent / "data"
SITE_WIDE = Path("/etc/muster")
DEFAULT_SITE = "generic"


class SearchPath(msgspec.Struct, frozen=True):
    """Where profiles and layers lie; None: not looked for."""

    bundled: Path = BUNDLED
    site_wide: Path | None = SITE_WIDE
    user: Path | None = None
    project: Path | None = None
    """The project's muster-site.toml."""

    @classmethod
    def of(cls, facts: Facts) -> SearchPath:
        """The one that holds for whoever typed the command."""
        config = facts.environment.get("XDG_CONFIG_HOME") or f"{facts.home}/.config"
        start = Path(facts.working_directory)
        project = next(
            (
                folder / "muster-site.toml"
                for folder in (start, *start.parents)
                if (folder / "muster-site.toml").exists()
            ),
            None,
        )
        return cls(user=Path(config) / "muster", project=project)

    def folders(self) -> Iterator[tuple[str, Path]]:
        """(layer, folder) of the places that hold whole profiles, weakest first."""
        yield "bundled", self.bundled
        if self.site_wide:
            yield "site-wide", self.site_wide / "sites"
        if self.user:
            yield "user", self.user / "sites"

    def overlays(self) -> Iterator[tuple[str, Path]]:
        """(layer, file) of what is laid over whatever site is chosen, weakest first."""
        if self.site_wide:
            yield "site-wide", self.site_wide / "site.toml"
        if self.user:
            yield "user", self.user / "site.toml"
        if self.project:
            yield "project", self.project


class Head(msgspec.Struct, frozen=True):
    """What stands at the top of a profile's file: enough to list it and to recognise its site."""

    name: str
    title: str
    summary: str
    complete: bool
    layer: str
    file: str
    detect: Mapping[str, Any]


def heads(search: SearchPath | None = None) -> list[Head]:
    """Every profile there is, by name; only the top of each file is read."""
    found: dict[str, Head] = {}
    for kind, folder in (search or SearchPath()).folders():
        for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
            table = _head_of(path)
            found[path.stem] = Head(
                name=path.stem,
                title=str(table.get("title", found[path.stem].title if path.stem in found else "")),
                summary=str(table.get("summary", found[path.stem].summary if path.stem in found else "")),
                complete=table.get("complete") is True,
                layer=kind,
                file=str(path),
                detect=table.get("detect", {}) if isinstance(table.get("detect"), dict) else {},
            )
    return [found[name] for name in sorted(found)]


def _head_of(path: Path) -> dict[str, Any]:
    """The keys before the first table, and [detect] if it is the first; the whole file where that is no TOML."""
    text = read_text(path)
    lines = []
    for line in text.splitlines():
        if line.startswith("[") and not line.startswith(("[detect]", "[detect.")):
            break
        lines.append(line)
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return parse_toml(text, str(path))


def evidence_from(facts: Facts, found: Sequence[Head]) -> Evidence:
    """What this host shows: variables, names, and those of the profiles' telling files that are here."""
    wanted = {str(path) for head in found for path in head.detect.get("files", ())}
    return Evidence(
        cluster_name=facts.cluster_name or facts.environment.get("SLURM_CLUSTER_NAME"),
        hostname=facts.hostname,
        environment=facts.environment,
        files=frozenset(path for path in wanted if Path(path).exists()),
    )
