"""Which profiles there are, from the top of each file: enough to list them and to recognise where we are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from os import path as paths
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from muster.errors import ProfileError
from muster.facts import Facts
from muster.ownership import AnyPath, Trust, names_in, nearest, system_directory
from muster.sites.text import parse_toml, read_text

if TYPE_CHECKING:
    from muster.sites.match import Evidence
    from muster.slurm.cluster_facts import ClusterFacts

BUNDLED = paths.join(paths.dirname(__file__), "data")
INDEX = f"{BUNDLED}/index.json"
"""The heads of the bundled profiles, made by scripts/make_site_pages.py: reading 36 files would cost a launch 6 ms."""

DEFAULT_SITE = "generic"


class SearchPath(msgspec.Struct, frozen=True):
    """Where profiles and layers lie; None: not looked for."""

    bundled: AnyPath = BUNDLED
    site_wide: AnyPath | None = "/etc/muster"
    user: AnyPath | None = None
    project: AnyPath | None = None
    """The project's muster-site.toml."""

    trust: Trust = msgspec.field(default_factory=Trust)

    @classmethod
    def of(cls, facts: Facts) -> SearchPath:
        """Return the search path of the user and the project that the facts name."""
        config = facts.environment.get("XDG_CONFIG_HOME") or f"{facts.home}/.config"
        project = nearest("muster-site.toml", facts.working_directory, facts.home)
        return cls(
            site_wide=system_directory(facts.environment),
            user=f"{config}/muster",
            project=project,
            trust=Trust.of(facts.environment),
        )

    def trusts(self, path: str) -> bool:
        """Return whether a file that is there may decide what runs: what Muster brings may, whoever installed it."""
        return paths.dirname(path) == os.fspath(self.bundled) or self.trust.refusal(path) is None

    def files(self) -> Iterator[str]:
        """Yield all that is there beside what Muster brings, trusted or not."""
        for layer, folder in self.folders():
            yield from _profiles_in(folder) if layer != "bundled" else ()
        yield from (path for _, path in self.overlays() if paths.exists(path))

    def folders(self) -> Iterator[tuple[str, str]]:
        """Yield layer and folder of the places that hold whole profiles, weakest first."""
        yield "bundled", os.fspath(self.bundled)
        if self.site_wide:
            yield "site-wide", paths.join(self.site_wide, "sites")
        if self.user:
            yield "user", paths.join(self.user, "sites")

    def overlays(self) -> Iterator[tuple[str, str]]:
        """Yield layer and file of what is laid over whatever site is chosen, weakest first."""
        if self.site_wide:
            yield "site-wide", paths.join(self.site_wide, "site.toml")
        if self.user:
            yield "user", paths.join(self.user, "site.toml")
        if self.project:
            yield "project", os.fspath(self.project)


class Head(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands at the top of a profile's file: enough to list it and to recognise its site."""

    name: str
    title: str
    summary: str
    complete: bool = False
    layer: str = "bundled"
    path: str | None = None
    """None: among the bundled ones."""

    detect: Mapping[str, Any] = {}

    @property
    def file(self) -> str:
        return self.path or f"{BUNDLED}/{self.name}.toml"

    @property
    def place(self) -> str:
        """Return the file and the line by which the site is recognised.

        Without a line where the file cannot be read.
        """
        try:
            lines = read_text(self.file).splitlines()
        except ProfileError:
            return self.file
        number = next((number for number, line in enumerate(lines, 1) if line.startswith("[detect")), None)
        return f"{self.file}:{number}" if number else self.file


def heads(search: SearchPath | None = None) -> list[Head]:
    """Return every profile there is, by name; of those that are not bundled only the top of each file is read."""
    heads_by_name: dict[str, Head] = {}
    search_path = search or SearchPath()
    for kind, folder in search_path.folders():
        if folder == BUNDLED:
            heads_by_name = {head.name: head for head in _heads_of_index()}
            continue
        for head in heads_in(folder, kind, search_path):
            # It hides the one of its name, which still says what it does not.
            hidden = heads_by_name.get(head.name, head)
            titles = {"title": head.title or hidden.title, "summary": head.summary or hidden.summary}
            heads_by_name[head.name] = replace(head, **titles)
    return [heads_by_name[name] for name in sorted(heads_by_name)]


def _heads_of_index() -> list[Head]:
    with open(INDEX, "rb") as stream:
        return msgspec.json.decode(stream.read(), type=list[Head])


def _profiles_in(folder: AnyPath) -> list[str]:
    """Return the paths of the profiles in a folder, by name."""
    return [paths.join(folder, name) for name in names_in(folder) if name.endswith(".toml")]


def heads_in(folder: AnyPath, layer: str, search: SearchPath | None = None) -> Iterator[Head]:
    """Yield those of the profiles in one folder, of which nobody else could have written one."""
    for path in _profiles_in(folder):
        if search and not search.trusts(path):
            continue
        table = _head_of(path)
        detect = table.get("detect")
        yield Head(
            name=paths.basename(path).removesuffix(".toml"),
            title=str(table.get("title", "")),
            summary=str(table.get("summary", "")),
            complete=table.get("complete") is True,
            layer=layer,
            path=path,
            detect=detect if isinstance(detect, dict) else {},
        )


def _head_of(path: str) -> dict[str, Any]:
    """Return the keys before the first table, and [detect] if it is the first.

    The whole file where that is not TOML.
    """
    from muster.older import tomllib

    text = read_text(path)
    lines = []
    for line in text.splitlines():
        if line.startswith("[") and not line.startswith(("[detect]", "[detect.")):
            break
        lines.append(line)
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return parse_toml(text, path)


def evidence_from(facts: Facts, heads: Sequence[Head], cluster: ClusterFacts | None = None) -> Evidence:
    """Return what this host shows: variables, names, and those of the profiles' telling files that are here."""
    from muster.sites.match import Evidence

    signs = {str(path) for head in heads for path in head.detect.get("files", ())}
    return Evidence(
        cluster_name=facts.environment.get("SLURM_CLUSTER_NAME") or (cluster.name if cluster else None),
        hostname=facts.hostname,
        environment=facts.environment,
        files=frozenset(path for path in signs if paths.exists(path)),
    )
