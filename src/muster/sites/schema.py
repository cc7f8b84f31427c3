"""The shape of a site profile: every key a profile may have, what it means and what it may hold.

Everything is optional but the name, so that a layer may say one thing only. The field's docstring is the
description in the published JSON Schema and the words of `muster site show`.

The annotations of the four files of the schema are values, not texts (Optional[…], and no `from __future__`): msgspec
would evaluate each of 300 texts at every start that reads a profile, 4 ms of 80.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union

from msgspec import Meta, convert, field

from muster.sites.schema_launch import (
    Bind,
    Binding,
    Container,
    Devices,
    Image,
    Modules,
    SiteCommand,
    SiteLaunch,
    SiteRendezvous,
    SiteVariable,
)
from muster.sites.schema_queues import Forbidden, NodeKind, Queue, QueueRule, SiteMemory, SiteRequest, TimeBin
from muster.sites.schema_words import (
    Count,
    Fact,
    Name,
    Offer,
    Optional,
    Part,
    Positive,
    Source,
    Text,
    Trust,
    Unpublished,
    When,
    Word,
)
from muster.sites.text import SCHEMA_VERSION

__all__ = [
    "Bandwidth",
    "Bind",
    "Binding",
    "Container",
    "Detect",
    "Devices",
    "Fabric",
    "Fact",
    "FileSystem",
    "Forbidden",
    "FrontEnd",
    "Help",
    "Image",
    "Modules",
    "Network",
    "NodeKind",
    "Offer",
    "Probes",
    "Profile",
    "Queue",
    "QueueRule",
    "Quirk",
    "SiteCommand",
    "SiteLaunch",
    "SiteMemory",
    "SiteRendezvous",
    "SiteRequest",
    "SiteVariable",
    "Source",
    "TimeBin",
    "Unpublished",
    "When",
]


# ---------------------------------------------------------------- the place


class Fabric(Part, frozen=True, kw_only=True):
    """The network between the nodes."""

    kind: Optional[Literal["slingshot", "infiniband", "omni-path", "ethernet", "roce"]] = None
    title: Optional[Text] = None
    interfaces: Optional[tuple[str, ...]] = None
    hcas: Optional[tuple[str, ...]] = None
    plugin: Optional[Text] = None
    plugin_stacks: tuple[str, ...] = ()
    """Software stacks that bring the plugin; without it the collectives go over TCP."""

    plugin_modules: tuple[str, ...] = ()
    """Modules that bring the plugin, without their versions."""

    plugin_in_image: bool = True
    """False: the commands of the profile bring the plugin to jobs without an image; an image has to load it itself."""

    gbit_per_node: Optional[Positive] = None


class FileSystem(Part, frozen=True, kw_only=True):
    """One place for files."""

    path: str
    use: Text
    scope: Optional[Literal["shared", "node", "job"]] = None
    quota: Optional[Text] = None
    files_max: Optional[Text] = None
    purge_days: Optional[Count] = None
    counts_as_memory: Optional[bool] = None
    operations_per_s: Optional[Count] = None
    """Files opened or looked for, by all nodes together: what starting Python from it is bound by."""

    locks: Optional[bool] = None
    """Whether SQLite's locks work on it from many nodes."""

    backed_up: Optional[bool] = None
    notes: tuple[Text, ...] = ()
    source: Optional[str] = None


class Network(Part, frozen=True, kw_only=True):
    """The way out."""

    internet: Optional[Literal["open", "nat", "proxy", "none", "none-even-login"]] = None
    proxies: dict[str, str] = field(default_factory=dict)
    """Lower-case variables; the upper-case spelling is set too."""

    no_proxy: tuple[str, ...] = ()
    offline: dict[str, str] = field(default_factory=dict)
    """Variables that tell libraries not to try."""


class Probes(Part, frozen=True, kw_only=True):
    """What may be asked there."""

    allowed: Optional[tuple[str, ...]] = None
    denied: dict[str, Text] = field(default_factory=dict)
    queues: Optional[tuple[Word, ...]] = None
    """The site's own command that lists the queues."""


class Bandwidth(Part, frozen=True, kw_only=True):
    """A published result: what the fabric should give."""

    nodes: Count
    ranks_per_node: Count
    collective: Literal["all_reduce", "send_recv"] = "all_reduce"
    size_mib: Positive
    busbw_gb_s: Positive
    """Bus bandwidth in 10^9 bytes per second."""

    tolerance: Optional[Annotated[float, Meta(gt=0, lt=1, description="a part of one")]] = None
    broken_gb_s: Optional[Positive] = None
    """What was measured where the fabric was not used."""

    how: Text
    source: Optional[str] = None


class Quirk(Part, frozen=True, kw_only=True):
    """Something that goes wrong there."""

    id: Name
    symptom: Text
    fix: Text
    muster: Optional[Text] = None
    """What Muster does about it."""

    applies: Optional[Text] = None
    source: Optional[str] = None


class FrontEnd(Part, frozen=True, kw_only=True):
    """A command of the site's own beside sbatch and squeue."""

    does: Text
    takes_our_script: Optional[bool] = None
    source: Optional[str] = None


class Help(Part, frozen=True, kw_only=True):
    """Whom to ask."""

    guide: Optional[Text] = None
    status: Optional[Text] = None
    support: Optional[Text] = None
    front_ends: dict[str, FrontEnd] = field(default_factory=dict)


class Detect(Part, frozen=True, kw_only=True):
    """How the place is recognised. One certain sign is enough; a node name is none."""

    cluster_names: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    """Variable → regular expression of its whole value."""

    hosts: tuple[str, ...] = ()
    """Regular expressions of whole host names that only this site has."""

    files: tuple[str, ...] = ()
    """Paths that only this site has."""

    nodes: tuple[str, ...] = ()
    """Regular expressions of node names, which other sites may have too: shown, never decisive."""


class Profile(Part, frozen=True, kw_only=True):
    """A site profile."""

    muster_site: Annotated[int, Meta(ge=1)] = SCHEMA_VERSION
    """Version of this format."""

    name: Name
    title: Text
    system: Optional[Text] = None
    summary: Optional[Text] = None
    """GPUs, fabric and size in one line."""

    extends: Optional[str] = None
    """Profile that this one changes."""

    without: tuple[str, ...] = ()
    """Dotted keys of the profile that is extended, or of weaker layers, that do not hold here."""

    complete: bool = False
    """True: every key has a value or stands in `unpublished`, and the sources are the site's own."""

    trust: Optional[Trust] = None
    """How far it can be trusted: own (the site's own documents of the last 18 months), mixed, users, old."""

    ran: Optional[
        Annotated[str, Meta(pattern=r"^(never|20[0-9]{2}-[0-9]{2}-[0-9]{2})$", description='a day, or "never"')]
    ] = None
    """Day on which a script of this profile ran at the site; never: none has run there yet."""

    draft: bool = False
    """True: `muster site probe` wrote it, without queues: a job reaches its queue by what Slurm says."""

    detect: Detect = field(default_factory=Detect)
    nodes: dict[str, NodeKind] = field(default_factory=dict)
    """Kinds of node; the first is what a job gets that names none."""

    request: SiteRequest = field(default_factory=SiteRequest)
    partitions: dict[str, Queue] = field(default_factory=dict)
    qos: dict[str, Queue] = field(default_factory=dict)
    queue_rules: tuple[QueueRule, ...] = ()
    queues_renamed: dict[str, str] = field(default_factory=dict)
    """A partition or QOS that is gone → the one that is there."""

    memory: SiteMemory = field(default_factory=SiteMemory)
    launch: SiteLaunch = field(default_factory=SiteLaunch)
    rendezvous: SiteRendezvous = field(default_factory=SiteRendezvous)
    devices: Devices = field(default_factory=Devices)
    binding: Binding = field(default_factory=Binding)
    environment: tuple[SiteVariable, ...] = ()
    modules: Modules = field(default_factory=Modules)
    commands: tuple[SiteCommand, ...] = ()
    containers: dict[str, Container] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    fabric: Fabric = field(default_factory=Fabric)
    filesystems: dict[str, FileSystem] = field(default_factory=dict)
    network: Network = field(default_factory=Network)
    probes: Probes = field(default_factory=Probes)
    bandwidth: tuple[Bandwidth, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    help: Help = field(default_factory=Help)
    sources: dict[str, Source] = field(default_factory=dict)
    facts: dict[str, Union[str, Fact]] = field(default_factory=dict)
    """Key → name of the source, or a table with the reason; holds for everything below the key."""

    unpublished: dict[str, Unpublished] = field(default_factory=dict)
    unverified: tuple[Offer, ...] = ()


def to_known_profile(table: Mapping[str, Any]) -> Profile:
    """Return the profile of tables that are known to fit; msgspec reads the types of the keys that are there alone."""
    kinds = Profile.__annotations__
    return Profile(**{key: convert(value, kinds[key]) for key, value in table.items()})
