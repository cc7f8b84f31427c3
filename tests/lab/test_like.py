"""Guards that a lab like a site has each queue on the nodes of that queue."""

from __future__ import annotations

import pytest

from muster_lab.like import lab_like
from sites.profiles import bundled

QUEUES = [
    (name, queue)
    for name in ("lumi", "leonardo", "horeka", "marenostrum5")
    for queue, row in bundled(name).profile.partitions.items()
    if row.node is not None
]


@pytest.mark.parametrize(("site", "queue"), QUEUES)
def test_a_queue_has_the_hosts_of_its_kind_of_node(site: str, queue: str) -> None:
    profile = bundled(site).profile
    lab = lab_like(profile, name="like", nodes=2)
    (partition,) = [each for each in lab.partitions if each.name == queue]

    groups = {group.names: group.prefix for group in lab.groups}
    assert groups[partition.hosts] == f"{profile.partitions[queue].node}-n"
