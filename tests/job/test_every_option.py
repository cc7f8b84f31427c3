"""Every field of the request is heard: an option that the help shows and that the plan does not read would vanish."""

from typing import Any, Optional

import pytest

from muster.facts import Facts
from muster.images.reference import ImageReference
from muster.job.option import Option, OriginKind, ValueOrigin, convert, parse_count
from muster.job.request import Request, options_of
from muster.job.request_options import OPTIONS, row
from muster.model.plan import Plan
from muster.plan.build import make_plan
from muster.plan.python_environment import chosen
from muster.render.script import job_script
from muster.sites.load import choose_site, overrides_from
from muster.units import Walltime

FACTS = Facts(
    working_directory="/home/ada/project",
    home="/home/ada",
    user="ada",
    python="/home/ada/env/bin/python",
    own_python="/opt/muster/bin/python",
    ready_folder="/opt/muster/ready",
)
# What is read while the facts are gathered, before there is a plan (cli/launching.py).
BEFORE_THE_PLAN = {"here", "fresh"}
# Words that suit an option, by what stands for its value in the help.
SAMPLES = {
    "N": "3",
    "SIZE": "64G",
    "TIME": "1:00:00",
    "PORT": "29000",
    "LOW-HIGH": "30000-30100",
    "SECONDS": "77",
    "KEY[=VALUE]": "A=1",
    "KEY": "A",
    "KEY=VALUE": "help.guide=here",
    "SITE": "tursa",
    "FLAG": "--label",
}
reads: set[str] = set()


class Heard(Request, frozen=True, kw_only=True):
    """A request that notes which of its fields are read."""

    def __getattribute__(self, name: str) -> Any:
        reads.add(name)
        return super().__getattribute__(name)


class Vanishing(Heard, frozen=True, kw_only=True):
    """The same with an option that nobody reads."""

    favour: Optional[str] = None


class WithNice(Heard, frozen=True, kw_only=True):
    """The same with one more field, which says where it goes."""

    nice: Optional[int] = None


@pytest.fixture
def favour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, *row("--favour NAME", "is for nothing"))


@pytest.fixture
def nice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, *row("--nice N", "be polite", parse_count(0, 10_000), directive="nice"))


def sample(given: Option) -> Any:
    """A value of this option as if it had been typed."""
    if given.is_switch:
        return True
    text = given.choices[-1] if given.choices else SAMPLES.get(given.metavar or "", "other")
    value = convert(given, text, given.flags[0])
    return (value,) if given.repeated else value


def planned(request: Request) -> Plan:
    """The plan of a request, as the command line makes it."""
    asked = chosen(request)
    site = choose_site(asked.site or "generic", FACTS, overrides_from(asked.site_set))
    return make_plan(asked, site, FACTS, typed=())


def unheard(kind: type[Request]) -> set[str]:
    """The fields that nobody reads in a launch that gives all they need."""
    reads.clear()
    planned(kind(command=("python", "train.py"), nodes=2))
    planned(
        kind(
            command=("python", "train.py"),
            image=ImageReference.parse("docker://registry.example.org/a:1"),
            engine="pyxis",
        )
    )
    planned(
        kind(
            command=("python", "train.py"),
            launcher="torchrun",
            time=Walltime(3600),
            save_before=300,
            until_done=True,
        )
    )
    return set(options_of()) - reads - BEFORE_THE_PLAN


def test_every_option_is_read() -> None:
    assert unheard(Heard) == set()


@pytest.mark.usefixtures("favour")
def test_an_option_that_nobody_reads_is_found() -> None:
    assert unheard(Vanishing) == {"favour"}


@pytest.mark.usefixtures("nice")
def test_one_field_is_an_option_that_becomes_a_directive() -> None:
    assert unheard(WithNice) == set()
    plan = planned(
        WithNice(
            command=("python", "train.py"), nice=5, origins={"nice": ValueOrigin(OriginKind.OPTION, "--nice", "5")}
        )
    )
    assert "\n#SBATCH --nice=5\n" in job_script(plan)


@pytest.mark.usefixtures("nice")
def test_the_new_field_is_understood_in_a_whole_flag_too() -> None:
    plan = planned(WithNice(command=("python", "train.py"), sbatch=("--nice=7",)))
    assert "\n#SBATCH --nice=7\n" in job_script(plan)


@pytest.mark.parametrize("name", [name for name, each in options_of().items() if each.directive])
def test_an_option_with_a_directive_stands_in_the_header(name: str) -> None:
    given = options_of()[name]
    plan = planned(Request(command=("python", "train.py"), **{name: sample(given)}))
    written = [each for each in plan.directives if each.name == given.directive]
    assert len(written) == 1
    assert written[0].value == (None if given.is_switch else str(sample(given)))


def test_every_field_has_its_row_and_every_row_its_field() -> None:
    not_typed = {"command", "origins", "roles"}

    assert list(options_of()) == [field for field in Request.__struct_fields__ if field not in not_typed]
