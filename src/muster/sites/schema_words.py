"""The words of a profile: what a value may look like, where a fact comes from, and when an entry holds."""

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from muster.rank.vendors import KINDS

Count = Annotated[int, Meta(ge=1, description="a whole number from 1 up")]
Number = Annotated[int, Meta(ge=0, description="a whole number from 0 up")]
Positive = Annotated[float, Meta(gt=0, description="a number above 0")]
Walltime = Annotated[
    str,
    Meta(
        pattern=r"^(([0-9]+-)?[0-9]+(:[0-9]{2}){1,2}|[0-9]+-[0-9]+|UNLIMITED)$",
        description='a time as Slurm writes it, with its colons: "02:00:00", "2-00:00:00"',
    ),
]
Cores = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$",
        description='cores as a list: "0-15" or "0-5,48-53"',
    ),
]
Size = Annotated[
    str, Meta(pattern=r"^[0-9]{1,15}[KMGT]?$", description='a memory size as Slurm writes it: "480G", "460000M"')
]
Flag = Annotated[
    str, Meta(pattern=r"^-{1,2}[A-Za-z][^\x00-\x1f]*$", description='one whole flag: "--hint=nomultithread"')
]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]*$", description="small letters, digits and hyphens")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of an environment variable")]
Word = Annotated[str, Meta(pattern=r"^[^\x00]*$", description="one word of a command")]
Text = Annotated[str, Meta(min_length=1, description="a sentence")]
Launcher = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9+-]*$", description="the name of a launcher: srun, torchrun, mpirun")
]
ImageEngine = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9+-]*$", description="the name of a container engine: apptainer")
]
if TYPE_CHECKING:
    from typing import Optional as Optional  # noqa: PLC0414  # others import it from here

    GpuKind = str
else:  # the table says which there are
    GpuKind = Literal[(*KINDS, "none")]

    class Optional:
        """A key that may be missing: TOML has no null, so msgspec need not know of None. typing's own costs 1.5 ms."""

        def __class_getitem__(cls, kind):
            return kind


Trust = Literal["own", "mixed", "users", "old"]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all parts of a profile share: frozen, and an unknown key is an error."""


# ---------------------------------------------------------------- where facts come from


class Source(Part, frozen=True, kw_only=True):
    """A document that facts were taken from."""

    title: Text
    at: Text
    """Where it can be opened again: an address, or OWNER/NAME @COMMIT with the path in it."""

    dated: Optional[dt.date] = None
    """Date of the copy that was read."""

    checked: dt.date
    """Day on which the profile was last compared with that copy."""

    trust: Literal["D", "V", "T"]
    """D: the site's own documentation; V: vendor or site staff; T: third party. Unverified facts have no trust."""


class Fact(Part, frozen=True, kw_only=True):
    """Where a key, and everything below it, comes from, and why it is so."""

    source: Text
    """Name in `sources`."""

    reason: Optional[Text] = None
    where: Optional[Text] = None
    """Page or section of the source."""

    says: Optional[Text] = None
    """The sentence of the source that a rule rests on, as it stands there. It holds for this key alone: without it a
    demand is Muster's own caution, and no message names the site as its author."""


class Unpublished(Part, frozen=True, kw_only=True):
    """A key for which nothing is published: looked for on `checked`, not found."""

    checked: dt.date
    note: Optional[Text] = None


class Offer(Part, frozen=True, kw_only=True):
    """Something that is not verified: it is offered with the word "unverified", and never a default."""

    key: Text
    value: Text
    reason: Text
    checked: dt.date


# ---------------------------------------------------------------- conditions


class When(Part, frozen=True, kw_only=True):
    """When an entry holds; every condition given must hold."""

    nodes_min: Optional[Count] = None
    nodes_max: Optional[Count] = None
    gpus_min: Optional[Count] = None
    """Logical GPUs per node that the job asks for, at least."""

    gpus_max: Optional[Number] = None
    all_gpus_max: Optional[Count] = None
    """GPUs of all nodes together, at most."""

    whole_node: Optional[bool] = None
    """True: the job has all GPUs of its nodes."""

    time_max: Optional[Walltime] = None
    launchers: Optional[tuple[Launcher, ...]] = None
    stacks: Optional[tuple[str, ...]] = None
    """Software stacks of this site: a container kind or an environment kind, as `containers` and `images` name them."""

    container: Optional[bool] = None
    """True: only in a container; False: only without one."""

    gpu_kinds: Optional[tuple[str, ...]] = None
    """Kinds of node, as `nodes` names them."""

    nccl_below: Optional[str] = None
    """Versions of NCCL that need it; unknown versions do not."""

    trial: Optional[bool] = None
    """The user asked for a debugging run."""

    workload: Optional[Text] = None
    """Needed by some programs only: never set by itself, offered by this name."""
