"""Names in a request that a profile does not list. The site may have them: the job is planned, with a warning. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from muster.errors import nearest_name
from muster.policy.queues import unlisted_features
from muster.policy.rules import Ask
from muster.sites.schema import Profile
from muster.sites.site import Origin, Site


class UnlistedName(msgspec.Struct, frozen=True):
    """One name in a request that the profile does not list, though it lists names of this kind."""

    kind: str
    """partition, QOS, GPU type, account, feature or launcher."""

    name: str
    key: str
    """The profile's key that lists the names of this kind."""

    known_names: tuple[str, ...]
    assignment: str | None
    """The --site-set that adds the name to the profile; None: the name does not fit into a dotted key."""


def unlisted_names(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    """Yield each name of this request that the profile does not list. A kind without any listed name is not checked."""
    for find_names in (_queues, _gpu_types, _accounts, _features, _launchers):
        yield from find_names(profile, ask)


def say_unlisted(site: Site, unlisted: UnlistedName) -> str:
    """Return the warning: whose knowledge ends here and how old it is, and the option that adds the name."""
    documents = _age_of(site.origin(unlisted.key))
    sentence = f"Muster's profile of {site.name} does not know the {unlisted.kind} {unlisted.name} ({documents})"
    near_name = nearest_name(unlisted.name, unlisted.known_names)
    listed = f"did you mean {near_name}?" if near_name else f"it knows {', '.join(unlisted.known_names)}"
    added = f"; --site-set {unlisted.assignment} adds it" if unlisted.assignment else ""
    return f"{sentence}: the job is planned from what was typed, and Slurm decides ({listed}{added})"


def _age_of(origin: Origin) -> str:
    if origin.source is None:
        return origin.words()
    return f"documents of {origin.source.dated}" if origin.source.dated else f"documents read {origin.source.checked}"


def _queues(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    for key, kind, name in (("partitions", "partition", ask.partition), ("qos", "QOS", ask.qos)):
        listed: Mapping[str, object] = getattr(profile, key)
        # Slurm takes a list of partitions too: whichever of them starts the job first.
        for each_name in (name or "").split(","):
            if each_name and listed and each_name not in listed and each_name not in profile.queues_renamed:
                kinds = [kind for kind, node in profile.nodes.items() if ask.gpus_per_node or node.gpus == 0]
                value = f"node={kinds[0]}" if kinds else "gpus=0" if profile.nodes else "purpose=production"
                assignment = None if "." in each_name else f"{key}.{each_name}.{value}"
                yield UnlistedName(kind, each_name, key, tuple(listed), assignment)


def _gpu_types(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    known_types = [name.removeprefix("gpu:") for name in profile.request.gres_names or () if name.startswith("gpu:")]
    if ask.gpu_type is not None and known_types and ask.gpu_type not in known_types:
        listed = [f"gpu:{name}" for name in (*known_types, ask.gpu_type)]
        yield _added("GPU type", ask.gpu_type, "request.gres_names", known_types, listed)


def _added(kind: str, name: str, key: str, known_names: Sequence[str], values: Sequence[str]) -> UnlistedName:
    """Return the unlisted name of a list; the assignment gives the whole list, for it replaces the profile's."""
    listed = ",".join(f'"{value}"' for value in values)
    return UnlistedName(kind, name, key, tuple(known_names), f"'{key}=[{listed}]'")


def _accounts(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    pattern = profile.request.account_pattern
    if ask.account is not None and pattern and not re.fullmatch(pattern, ask.account):
        example = profile.request.account_example or pattern
        key = "request.account_pattern"
        escaped = re.sub(r"[\\^$.|?*+(){}\[\]]", r"\\\g<0>", ask.account)
        yield UnlistedName("account", ask.account, key, (example,), f"'{key}={pattern}|{escaped}'")


def _features(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    known_features = profile.request.features or ()
    for word in unlisted_features(profile, ask.constraint):
        yield _added("feature", word, "request.features", known_features, (*known_features, word))


def _launchers(profile: Profile, ask: Ask) -> Iterator[UnlistedName]:
    allowed = profile.launch.allowed or ()
    if ask.launcher is not None and allowed and ask.launcher not in {*allowed, *profile.launch.refused}:
        yield _added("launcher", ask.launcher, "launch.allowed", allowed, (*allowed, ask.launcher))
