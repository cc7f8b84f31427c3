"""`make docs`: the documents become pages without a link that leads nowhere, and load nothing from elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from muster import __version__

from .paths import ROOT

_SPEC = importlib.util.spec_from_file_location("make_docs", ROOT / "scripts/make_docs.py")
assert _SPEC is not None
assert _SPEC.loader is not None
make_docs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_docs)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    assert make_docs.make(folder / "site", work=folder / "work") == ""
    return folder / "site"


@pytest.mark.wide
def test_every_link_of_the_site_leads_somewhere_and_nothing_is_fetched(site: Path) -> None:
    assert list(make_docs.faults(site)) == []


@pytest.mark.wide
def test_every_document_has_its_page(site: Path) -> None:
    documents = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path.with_name(path.name.replace("README.md", "index.md")).with_suffix(".html") for path in documents}

    assert {page for page in pages if not (site / page).exists()} == set()


@pytest.mark.wide
def test_every_page_says_which_version_it_is_of(site: Path) -> None:
    without = [page for page in site.rglob("*.html") if f"Muster {__version__}" not in page.read_text()]

    assert without == []


@pytest.mark.wide
def test_the_search_works_from_a_folder(site: Path) -> None:
    text = (site / "guides/jobs.html").read_text()

    assert f"../{make_docs.SHIM}" in text
    assert make_docs.FETCHED_SHIM not in text
    assert "DependencyNeverSatisfied" in (site / "search.js").read_text()


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="gone.html">', "links to gone.html, which is not there"),
        ('<a href="#gone">', "links to #gone, which has no such heading"),
        ('<a href="other.html#gone">', "links to other.html#gone, which has no such heading"),
        ('<img src="gone.svg">', "loads gone.svg, which is not there"),
        ('<script src="https://example.org/x.js"></script>', "fetches https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "fetches //example.org/x.css"),
    ],
)
def test_a_wrong_link_is_found(html: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text('<h1 id="there">')
    (tmp_path / "index.html").write_text(f'<h1 id="here"><a href="#here"><a href="other.html#there">{html}')

    assert list(make_docs.faults(tmp_path)) == [f"index.html {said}"]


def test_a_document_with_a_wrong_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs/guides").mkdir(parents=True)
    (tmp_path / "docs/index.md").write_text("# Top\n\n[gone](guides/gone.md)\n")
    (tmp_path / "docs/guides/one.md").write_text("# One\n")
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)

    assert "gone.md" in make_docs.make(tmp_path / "site", work=tmp_path / "work")


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<p>with --gpu-type a</p>", '<p>with <span class="whole">--gpu-type</span> a</p>'),
        ("<p>(-g 1)</p>", '<p>(<span class="whole">-g</span> 1)</p>'),
        ("<td>2-00:00:00</td>", '<td><span class="whole">2-00:00:00</span></td>'),
        ("<p>well-known</p>", "<p>well-known</p>"),
        ("<code>cat a-b c</code> a-b", '<code>cat <span class="whole">a-b</span> c</code> a-b'),
        ("<pre><code>run --all</code></pre>", "<pre><code>run --all</code></pre>"),
        (f"<code>{'x' * 28} y</code>", f"<code>{'x' * 28} y</code>"),
        (f"<td><code>{'x' * 28} y</code></td>", f'<td><code class="words">{"x" * 28} y</code></td>'),
        (f"<td>a-b {'x' * 26}/y=z</td>", f"<td>a-b {'x' * 26}/<wbr>y=<wbr>z</td>"),
        (f"<td>{'x' * 26}/y_z</td>", f"<td>{'x' * 26}/<wbr>y_<wbr>z</td>"),
        (f"<td>{'x' * 26}=y_z</td>", f"<td>{'x' * 26}=<wbr>y_z</td>"),
        (f"<td>{'x ' * 26}</td>", f'<td class="text">{"x " * 26}</td>'),
        (f"<td>{'x' * 24}/y=z</td>", f"<td>{'x' * 24}/y=z</td>"),
    ],
)
def test_no_line_breaks_inside_an_option(html: str, made: str) -> None:
    assert make_docs.with_whole_words(html) == made


@pytest.mark.wide
def test_what_is_typed_on_a_login_host_looks_typed(site: Path) -> None:
    text = (site / "tutorial/first-job.html").read_text()

    assert '<span class="typed"><span class="gp">login$</span> muster queues</span>' in text
    assert '<span class="typed"><span class="gp">$ </span>muster<span class="w"> </span>lab' in text
    assert '<span class="go">login$' not in text
