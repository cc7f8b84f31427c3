"""The shape of what is gathered: JSON objects, one of a rank, one of its node. A key that is missing is not known."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

try:
    from typing import TypedDict
except ImportError:  # a Python that is older still fails here in words, not in the middle of a job
    raise SystemExit("muster: error: the check needs Python 3.8 or newer") from None


class Cpus(TypedDict, total=False):
    """The processors of a node."""

    online: str
    """As the kernel writes it: "0-127"."""

    numa: Dict[str, str]
    """NUMA domain → its CPUs; domains without CPUs are left out."""

    siblings: List[str]
    """The hardware threads of each core: "0,64"."""


class Gpu(TypedDict, total=False):
    """One logical GPU, in the order in which the driver counts them."""

    bus: str
    name: str
    uuid: str
    kind: str
    numa: Optional[int]
    cpus: str
    """The CPUs next to it, where the node says so."""


class Device(TypedDict, total=False):
    """One RDMA device."""

    name: str
    numa: Optional[int]
    state: str
    layer: str
    rate: str
    roce_v2: List[int]
    """Entries of its table of addresses that are RoCE v2 with an IPv4 address."""


class Interface(TypedDict, total=False):
    """One network interface."""

    name: str
    up: bool
    addresses: List[str]
    mtu: int
    speed_mbit: Optional[int]
    numa: Optional[int]


class Space(TypedDict):
    """What is left of a file system."""

    path: str
    free_mib: int
    size_mib: int
    free_files: Optional[int]


class Lookup(TypedDict):
    """One name, asked for on one node; both ways."""

    name: str
    addresses: List[str]
    seconds: Optional[float]
    """None: no answer in time."""

    reverse: Optional[str]
    reverse_s: Optional[float]


class Stranger(TypedDict):
    """What became of a process outside the job that tried to join the ranks."""

    host: str
    address: str
    """Its own end of the connection; empty: there was none."""

    place: str
    """Rank 0's address and port."""

    saw: str
    """joined, refused, unreachable or unknown."""


class Node(TypedDict, total=False):
    """What is the same for all ranks of a node."""

    host: str
    cpus: Cpus
    gpus: List[Gpu]
    devices: List[Device]
    interfaces: List[Interface]
    software: Dict[str, str]
    environment: Dict[str, str]
    mounts: Dict[str, str]
    space: List[Space]
    limits: Dict[str, Optional[int]]
    """None: unlimited."""

    names: List[Lookup]
    smi: Dict[str, str]
    """What the vendor's tool printed, by its name."""

    leftovers: List[str]
    """Files of this user that an ended process left where a new process looks."""

    shared: Dict[str, str]
    """Of the working directory and the run directory: what this node sees there."""

    import_s: Dict[str, float]
    """Folder of Python packages → seconds to look at one file in it."""

    switches: List[str]
    """What the node stands under, by Slurm's word, from the top down: switches, or its block."""

    egress: Optional[bool]
    gathered_s: float
    stranger: Stranger
    """Of the host where the check was typed."""


class Link(TypedDict, total=False):
    """What rank 0 measured of the way to one rank."""

    offset_s: float
    """How far the rank's clock is ahead of rank 0's."""

    round_trip_s: float
    bytes_per_s: float


class Rank(TypedDict, total=False):
    """What one rank is."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    host: str
    hosts: List[str]
    mask: str
    reach: List[int]
    """The GPUs of the node that this process may open; a missing key: nobody could tell."""

    environment: Dict[str, str]
    node: Node
    """Told by the first rank of each node."""

    link: Link
    trouble: str
    """Why this rank could not tell rank 0 of itself."""

    squatter: str
    """Who holds the port of the rendezvous, if it is not rank 0."""

    simulated: List[str]


class Expected(TypedDict, total=False):
    """What the plan and the site's profile say; a key that is missing is not judged."""

    interfaces: List[str]
    hcas: List[str]
    fabric: str
    """infiniband, slingshot, efa, roce, ethernet …"""

    gpus: int
    gpu_numa: List[int]
    ranks: int
    nodes: int
    segment: int
    """So many neighbouring nodes are to stand in one block."""

    closed: bool
    """A door stands at the port of the store."""

    origins: Dict[str, str]
    """Variable → who set it."""


class CheckedWorld(NamedTuple):
    """Everything that was gathered: of the ranks, of the login node, and what was expected."""

    ranks: Tuple[Rank, ...] = ()
    login: Optional[Node] = None
    expected: Expected = Expected()

    @property
    def nodes(self) -> List[Node]:
        """Return the nodes that told of themselves, in the order of their first ranks."""
        return [rank["node"] for rank in self.ranks if "node" in rank]

    @property
    def hosts(self) -> List[str]:
        """Return the hosts of the job, whether they told of themselves or not."""
        node_list = next((rank["hosts"] for rank in self.ranks if rank.get("hosts")), [])
        return node_list or list(dict.fromkeys(rank["host"] for rank in self.ranks))

    def places(self) -> List[Node]:
        """Return all nodes to look at one by one: the job's, or the login node alone."""
        return self.nodes or ([self.login] if self.login is not None else [])


def world_of(
    documents: Sequence[Mapping[str, Any]], login: Optional[Node] = None, expected: Optional[Expected] = None
) -> CheckedWorld:
    """Return the world of these ranks; of a rank that told twice, what rank 0 passed on counts."""
    ranks: Dict[int, Rank] = {}
    for document in documents:
        number = document.get("rank")
        if isinstance(number, int) and (number not in ranks or "trouble" in ranks[number]):
            ranks[number] = document  # type: ignore[assignment]  # checked where it is read
    return CheckedWorld(tuple(ranks[number] for number in sorted(ranks)), login, expected or Expected())


def one_of_each_node(world: CheckedWorld) -> List[Rank]:
    """Return the first rank of each node."""
    rank_by_host: Dict[str, Rank] = {}
    for rank in world.ranks:
        rank_by_host.setdefault(rank["host"], rank)
    return list(rank_by_host.values())
