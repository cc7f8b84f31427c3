"""Find the profiles, lay them over each other, and hand out one site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from os import path as paths
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from muster.errors import ProfileError, RequestError, UnknownName
from muster.facts import Facts
from muster.parts import SITES, load_point, parts_of_others
from muster.sites.heads import DEFAULT_SITE, Head, SearchPath, evidence_from, heads
from muster.sites.layers import Layer, Merged, merge
from muster.sites.schema import Profile, to_known_profile
from muster.sites.site import Site
from muster.sites.text import check_version, parse_toml, read_text, tables_read_before

if TYPE_CHECKING:
    from muster.sites.match import Evidence, SiteMatch
    from muster.slurm.cluster_facts import ClusterFacts

_MOST_MEANT = 4
"""A word in the titles of more sites than this, such as EuroHPC, means none of them."""


def load(
    name: str,
    search: SearchPath | None = None,
    overrides: Mapping[str, Any] | None = None,
    cluster: ClusterFacts | None = None,
) -> Site:
    """Return the site of this name, or of this TOML file, with every layer that holds for it.

    What Slurm says lies over the profile, and under what the user and the project say.
    """
    search_path = search or SearchPath()
    overlays = list(_overlay_layers(name, search_path))
    of_the_site = [layer for layer in overlays if layer.kind == "site-wide"]
    own_layers = [layer for layer in overlays if layer.kind != "site-wide"]
    if overrides:
        own_layers.append(_override_layer(overrides))
    base_layers = [*_base_layers(name, search_path, ()), *of_the_site]
    layers = [*base_layers, *own_layers]
    merged = merge(layers)
    site = Site(_profile_of(merged, layers), tuple(layers), merged)
    if cluster is None:
        return site
    from muster.sites.live_site import with_cluster

    return with_cluster(site, base_layers, own_layers, cluster)


def _profile_of(merged: Merged, layers: Sequence[Layer]) -> Profile:
    """Return the profile. A test holds together what Muster ships; what others wrote is checked here, line by line."""
    if all(layer.kind == "bundled" for layer in layers):
        try:
            return to_known_profile(merged.table)
        except (msgspec.ValidationError, KeyError, TypeError):
            pass  # a bundled file that somebody has edited
    from muster.sites.consistency import check

    return check(merged, layers)


def _base_layers(name: str, search: SearchPath, chain: tuple[tuple[str, Layer], ...]) -> list[Layer]:
    """Return the profile of this name from every folder that has one, after the one that it extends.

    `chain`: the profiles that led here, each with the layer that extends the next.
    """
    names = [earlier_name for earlier_name, _ in chain]
    if name in names:
        cycle = " → ".join([*names, name])
        hint = "one of them has to stand alone"
        raise _about_parent(chain[-1][1], f"profiles extend each other in a circle: {cycle}", hint)
    own_layers = [_layer(kind, path) for kind, path in _files_of(name, search)]
    if not own_layers:
        unknown = _unknown_site(name, heads(search))
        raise _about_parent(chain[-1][1], unknown.message, unknown.hint) if chain else unknown
    extending = next((layer for layer in reversed(own_layers) if isinstance(layer.table.get("extends"), str)), None)
    base_layers = _base_layers(extending.table["extends"], search, (*chain, (name, extending))) if extending else []
    return [*(replace(layer, inherited=True) for layer in base_layers), *own_layers]


def _unknown_site(name: str, known_heads: Sequence[Head]) -> UnknownName:
    """Return the error of a name that no profile has. A word of a title, or another spelling, means its site."""
    typed_word = _spelling(name)
    meant = [head.name for head in known_heads if typed_word in map(_spelling, (head.name, *_words(head.title)))]
    known_names = [head.name for head in known_heads]
    return UnknownName(
        "site", name, known_names, listed_by="muster site list", meant=meant if len(meant) <= _MOST_MEANT else ()
    )


def _words(title: str) -> list[str]:
    return re.split(r"[ ,():]+", title)


def _spelling(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.casefold())


def _about_parent(layer: Layer, message: str, hint: str | None) -> ProfileError:
    return ProfileError(message, layer.file, line=layer.line(("extends",)), key="extends", hint=hint)


def _files_of(name: str, search: SearchPath) -> list[tuple[str, str]]:
    if name.endswith(".toml") or "/" in name:
        return [("command line", name)]
    places = [(kind, f"{folder}/{name}.toml") for kind, folder in search.folders()]
    files = [(kind, path) for kind, path in places if paths.exists(path) and search.trusts(path)]
    return files or [("package", path) for path in _files_of_others(name)]


def _files_of_others(name: str) -> Iterator[str]:
    """Yield the profile of this name in the package whose entry point names it: NAME.toml beside its module."""
    point = parts_of_others(SITES).get(name)
    if point is not None:
        yield paths.join(paths.dirname(load_point(point).__file__), f"{name}.toml")


def _overlay_layers(name: str, search: SearchPath) -> Iterator[Layer]:
    """Yield the layers over a site; one that names a site holds there only."""
    for kind, path in search.overlays():
        if paths.exists(path) and search.trusts(path):
            layer = _layer(kind, path)
            if layer.table.get("name", name) == name:
                yield layer


def _layer(kind: str, path: str) -> Layer:
    return _layer_of(kind, path, read_text(path))


@lru_cache(maxsize=128)
def _layer_of(kind: str, file: str, text: str) -> Layer:
    """Return the layer of this text. Nothing changes a layer, so many sites share the one that they extend."""
    table = tables_read_before(file, text) if kind == "bundled" else None
    if table is None:
        table = parse_toml(text, file)
        check_version(table, text, file)
    return Layer(kind, file, text, table)


def _override_layer(overrides: Mapping[str, Any]) -> Layer:
    """Return the layer of dotted keys given on the command line."""
    table: dict[str, Any] = {}
    for key, value in overrides.items():
        *parents, last = key.split(".")
        inner = table
        for part in parents:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise RequestError(f"{key} is given twice, as a value and as a table", hint="give it once")
        inner[last] = value
    return Layer("command line", "the command line", "", table)


def overrides_from(assignments: Sequence[str]) -> dict[str, Any]:
    """Return KEY=VALUE as typed: a value that is TOML is what TOML says, any other is text."""
    pairs = (text.partition("=")[::2] for text in assignments)
    return {key: _typed(value) for key, value in pairs}


def _typed(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}", "")["value"]
    except ProfileError:
        return text


# ---------------------------------------------------------------- which site


def choose_site(
    name: str | None, facts: Facts, overrides: Mapping[str, Any] | None = None, cluster: ClusterFacts | None = None
) -> Site:
    """Return the site that was asked for, else the one that the evidence shows, else `generic`, said aloud.

    What Slurm says here holds for a site that was named only where nothing shows that this is another one.
    """
    search = SearchPath.of(facts)
    if name is not None and cluster is None:
        return load(name, search, overrides)
    found_heads = heads(search)
    evidence = evidence_from(facts, found_heads, cluster)
    if name is not None:
        is_here = _is_here(name, evidence, found_heads)
        return replace(load(name, search, overrides, None if is_here is False else cluster), is_here=is_here)
    sighting = recognise(evidence, found_heads)
    site = replace(load(sighting.name or DEFAULT_SITE, search, overrides, cluster), is_here=True)
    expected = evidence.in_lab and sighting.name is None
    return site if expected else replace(site, notes=(_said(sighting),))


def recognise(evidence: Evidence, found_heads: Sequence[Head]) -> SiteMatch:
    """Return the site that the evidence shows; an error names the files of two that match."""
    from muster.sites.match import decide

    heads_by_name = {head.name: head for head in found_heads}
    detects = {name: head.detect for name, head in heads_by_name.items()}
    return decide(evidence, detects, lambda name: heads_by_name[name].place)


def _is_here(name: str, evidence: Evidence, found_heads: Sequence[Head]) -> bool | None:
    """Return whether the command was typed at the site of this name; None: its profile has no sign, and may be any.

    A host that no sign of any profile is on is at `generic`.
    """
    from muster.sites.match import LAB_SITE, signs

    like = evidence.environment.get(LAB_SITE)
    if like:
        return like == name
    recognised_names = [head.name for head in found_heads if any(signs(evidence, head.detect))]
    if name in (recognised_names or [DEFAULT_SITE]):
        return True
    head = next((head for head in found_heads if head.name == name), None)
    return None if head is None or not head.detect else False


def _said(sighting: SiteMatch) -> str:
    if sighting.name is None:
        return f"no site profile matches this host: {DEFAULT_SITE} is used (muster site list shows the others)"
    return f"this is {sighting.name}: " + "; ".join(sighting.evidence)
