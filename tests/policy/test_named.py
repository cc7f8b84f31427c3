"""What a site's own page names is never refused in the site's name, and nearly all of it is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.policy.names import unlisted_names
from muster.policy.rules import Ask, refusals
from sites.named import ACCOUNTS, GPU_TYPES, PARTITIONS, QOS
from sites.profiles import bundled

# Names of a page that are not for everybody, or whose limits the page does not give.
NOT_LISTED = {("kempner", "kempner_dev"), ("perlmutter", "premium"), ("jean-zay", "rgx@cpu")}


def asks() -> Iterator[tuple[str, str, Ask]]:
    for site, names in PARTITIONS.items():
        yield from ((site, name, Ask(partition=name)) for name in names)
    for site, names in QOS.items():
        yield from ((site, name, Ask(qos=name)) for name in names)
    for site, names in GPU_TYPES.items():
        yield from ((site, name, Ask(gpu_type=name, gpus_per_node=1)) for name in names)
    for site, names in ACCOUNTS.items():
        yield from ((site, name, Ask(account=name)) for name in names)


@pytest.mark.parametrize(("site", "name", "ask"), list(asks()), ids=lambda each: each if isinstance(each, str) else "")
def test_a_name_of_the_sites_page_is_known_or_warned_of(site: str, name: str, ask: Ask) -> None:
    profile = bundled(site).profile
    words = [refusal.message for refusal in refusals(profile, ask)]
    assert not [text for text in words if f"no partition {name}" in text or f"no QOS {name}" in text]
    assert not [text for text in words if name in text and "not an account" in text]
    unlisted = [each.name for each in unlisted_names(profile, ask) if each.name == name]
    assert bool(unlisted) == ((site, name) in NOT_LISTED)


def test_the_pages_of_ten_sites_at_least_are_read() -> None:
    assert len({*PARTITIONS, *QOS, *GPU_TYPES, *ACCOUNTS}) >= 10
    assert len(list(asks())) >= 100
