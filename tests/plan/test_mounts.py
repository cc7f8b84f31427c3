"""What a command in an image sees of the host: every mount, with its place, its mode and its reason, in order."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import RequestError
from muster.facts import ImageFacts
from muster.render.script import job_script

IMAGE = ImageFacts(kind="sif", arch="x86_64", has_sh=True)
OWN = {
    "/home/ada": "the home directory: settings and what programs keep there",
    "/tmp": "the node's own temporary files",
}


def mounts(*words: str, image: ImageFacts = IMAGE, **facts: str) -> list[str]:
    """Each mount of the plan as SOURCE:TARGET MODE REASON."""
    known = replace(FACTS, image=image, **facts)
    made = plan("-N2", "-g4", "--image", "/images/x.sif", *words, "--", "python", "x.py", facts=known).image.mounts
    rows = []
    for each in made:
        source = each.source if each.source == each.target else f"{each.source}:{each.target}"
        mode = f"{'ro' if each.read_only else 'rw'}{', asked' if each.is_asked else ''}"
        rows.append(f"{source} ({mode}) {each.reason.text}")
    return rows


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ((), []),
        (("--bind", "/data"), ["/data (rw, asked) set by you"]),
        (("--bind", "/data:/d:ro"), ["/data:/d (ro, asked) set by you"]),
        (("--bind", "/data:/data:rw"), ["/data (rw, asked) set by you"]),
        (("--bind", "/data", "--bind", "/data/in"), ["/data (rw, asked) set by you"]),
        (
            ("--bind", "/data", "--bind", "/data/in:/data/in:ro"),
            ["/data (rw, asked) set by you", "/data/in (ro, asked) set by you"],
        ),
        (("--bind", "in"), []),
        (("--bind", "in:/in"), ["/home/ada/project/in:/in (rw, asked) set by you"]),
        (("--bind", "/b:/z", "--bind", "/a:/y"), ["/b:/z (rw, asked) set by you", "/a:/y (rw, asked) set by you"]),
    ],
)
def test_what_is_bound(words: tuple[str, ...], others: list[str]) -> None:
    assert mounts(*words) == _in_order([*(f"{path} (rw) {text}" for path, text in OWN.items()), *others])


def _in_order(rows: list[str]) -> list[str]:
    """Paths under their own names first, the short ones before the long ones."""
    sources = [row.partition(" ")[0] for row in rows]
    same = sorted((len(source), number) for number, source in enumerate(sources) if ":" not in source)
    return [*(rows[number] for _, number in same), *(row for row, source in zip(rows, sources) if ":" in source)]


def test_shifter_binds_what_has_another_name_in_the_image_alone() -> None:
    words = ("-N2", "--image", "docker://a/b:1", "--engine", "shifter", "--bind", "/a:/b", "--bind", "/c")
    volumes = [word for word in job_script(plan(*words, "--", "python", "x.py")).split() if "--volume=" in word]
    assert volumes == ["--volume=/a:/b"]


def test_the_place_behind_a_link_is_bound_too_and_no_second_time_where_it_is_seen() -> None:
    links = ImageFacts(
        kind="sif",
        arch="x86_64",
        real_paths={"/data": "/disk/7", "/home/ada": "/home/ada", "/tmp": "/tmp"},
    )
    assert [row for row in mounts("--bind", "/data:/data:ro", image=links) if "/d" in row.partition(" ")[0]] == [
        "/data (ro, asked) set by you",
        "/disk/7 (ro, asked) /data is a link to it",
    ]
    assert not [row for row in mounts("--bind", "/data:/d", image=links) if "/disk" in row]


def test_a_working_directory_outside_the_home_is_bound_and_the_root_never() -> None:
    assert "/work/p (rw) the working directory of the ranks" in mounts(working_directory="/work/p")
    assert not [row for row in mounts(home="/") if row.startswith("/ ")]
    rows = mounts("--chdir", "/scratch/run")
    assert "/scratch/run (rw) the working directory of the ranks" in rows


@pytest.mark.parametrize("bind", ["/a:/b:rx", "/a:/b:ro:x", ":/b", "/a:b"])
def test_what_is_no_bind_is_refused(bind: str) -> None:
    with pytest.raises(RequestError, match=f"--bind {bind}"):
        mounts("--bind", bind)
