"""One thing that a check has to say."""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

BROKEN = "broken"
WARNING = "warning"
NOTE = "note"


class Finding(NamedTuple):
    """What is wrong, how bad it is, by what it was seen, and the one thing to do about it."""

    what: str
    """The name of the check, as the table and the documents have it."""

    status: str
    """`broken`: a run would fail, hang or be slow beyond use; `warning`: it may; `note`: nothing is wrong."""

    evidence: str
    remedy: str
    hosts: Tuple[str, ...] = ()
    """The hosts it is about; none: all of them alike. A launch that leaves hosts out begins here."""


def hosts_in_words(hosts: Sequence[str], most_names: int = 4) -> str:
    """Return a few hosts by name, many by number."""
    names = sorted(set(hosts))
    if len(names) <= most_names:
        return ", ".join(names)
    return "{} and {} more".format(", ".join(names[:most_names]), len(names) - most_names)


def hosts_by_value(values: Iterable[Tuple[Any, str]]) -> Dict[Any, List[str]]:
    """Return the hosts of each value, of pairs of a value and a host."""
    groups: Dict[Any, List[str]] = {}
    for value, host in values:
        groups.setdefault(value, []).append(host)
    return groups


def values_in_words(groups: Mapping[Any, Sequence[str]]) -> str:
    """Return each value with its hosts."""
    return "; ".join(f"{value} on {hosts_in_words(hosts)}" for value, hosts in groups.items())


def odd_hosts(groups: Iterable[List[str]]) -> List[str]:
    """Return the hosts of the smallest group; of groups of one size the last: what rank 0 says is the measure."""
    return min(reversed(list(groups)), key=len)
