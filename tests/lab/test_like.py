"""Guards that a lab like a site has each queue on the nodes of that queue, and the site's own rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster_lab.like import lab_like, say_sizes
from sites.profiles import bundled

QUEUES = [
    (name, queue)
    for name in ("lumi", "leonardo", "horeka", "marenostrum5")
    for queue, row in bundled(name).profile.partitions.items()
    if row.node is not None
]
_SITES = "alvis clariden frontier jupiter delta horeka karolina leonardo lonestar6 marenostrum5 vega".split()  # noqa: SIM905


@pytest.mark.parametrize(("site", "queue"), QUEUES)
def test_a_queue_has_the_hosts_of_its_kind_of_node(site: str, queue: str) -> None:
    profile = bundled(site).profile
    lab = lab_like(profile, name="like", nodes=2)
    (partition,) = [each for each in lab.partitions if each.name == queue]

    groups = {group.names: group.prefix for group in lab.groups}
    assert groups[partition.hosts] == f"{profile.partitions[queue].node}-n"


def test_what_a_lab_like_a_site_is_made_of(golden: Callable[[Path, str], None]) -> None:
    def lines() -> Iterator[str]:
        for site in ("generic", "lumi", "jean-zay", "perlmutter", "snellius"):
            profile = bundled(site).profile
            lab = lab_like(profile, name="like")
            yield f"== {site}, cuts GPUs: {lab.cuts_gpus}"
            yield from say_sizes(profile, lab)
            yield from (f"{each.names[0]} … {each.names[-1]}: {each}" for each in lab.groups)
            for partition in lab.partitions:
                hosts = f"{len(partition.hosts)} from {partition.hosts[0]}" if partition.hosts else "all"
                yield f"{partition.name}: hosts: {hosts}, default: {partition.default}, {partition.options}"
            yield from map(str, (*lab.accounts, *lab.qos))
            own_lines = (
                (lab.job_submit_lua or "").partition("return slurm.ERROR\n  end\n")[2].partition("  return slurm.")
            )
            yield own_lines[0]
        for site in _SITES:
            lab = lab_like(bundled(site).profile, name="like", nodes=3, account="mine", slurm="24.11")
            told = str(dataclasses.replace(lab, job_submit_lua=""))
            rules = (lab.job_submit_lua or "").partition("return slurm.ERROR\n  end\n")[2].splitlines()
            yield f"{site}: {' ⏎ '.join([told, *rules])}"

    golden(Path(__file__).parent.parent / "golden/like.txt", "\n".join(lines()))
