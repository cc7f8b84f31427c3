"""`make docs`: the documents as pages for a browser, in dist/docs; every link is checked, and nothing is fetched.

Zensical (of the authors of Material for MkDocs, which is no longer maintained) makes the pages. The site can be read
and searched from a folder, without a server and without a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from muster import __version__
from muster.cli.docs import KINDS, find_pages
from muster.runner import run

ROOT = Path(__file__).resolve().parent.parent
LOOK = ROOT / "scripts" / "docs-site"
SHIM = "worker-in-a-frame.js"
STYLE = "tables.css"
# What Zensical would fetch so that the search works from a folder; ours stands in its place.
FETCHED_SHIM = "https://unpkg.com/iframe-worker/shim"
# Only the prompts of a shell that Pygments knows are told from an output.
LOGIN_LINE = re.compile(r'<span class="go">login\$( .*?)</span>')
# A browser breaks a line behind any hyphen. Words that fill a line may break.
WHOLE_WORD = re.compile(r"(?<![\w;-])--?[A-Za-z][\w=-]{0,38}|\b\d+-\d\d:\d\d:\d\d\b")
CODE_WORD = re.compile(r"(?<!\S)(?=\S*[-/])[^\s<>]{2,40}(?!\S)")
LONG_CODE = 28
LONG_TEXT = 50
LONG_WORD = re.compile(rf"\S{{{LONG_CODE + 1},}}")
PART = re.compile(r"[/,:=]+(?=\w)")
PART_OF_PATH = re.compile(r"[/,:=_]+(?=\w)")
TYPED_LINE = re.compile(r'(?m)((?:^|(?<=<code>))<span class="gp">(?:login)?\$.*)$')
TABS = {
    "tutorial": "Tutorial",
    "guides": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
    "sites": "Sites",
    "by-hand": "By hand",
    "contributing": "Contributing",
}


def main(words: Sequence[str]) -> int:
    """Make the site in the folder that is named; returns 1 where a link leads nowhere."""
    site = Path(words[0]).resolve() if words else ROOT / "dist" / "docs"
    made = make(site, work=ROOT / ".cache" / "docs-source")
    if made:
        print(made, file=sys.stderr)
        return 1
    wrong = list(faults(site))
    print("\n".join(wrong) if wrong else f"{len(list(site.rglob('*.html')))} pages: {site / 'index.html'}")
    return 1 if wrong else 0


def make(site: Path, *, work: Path) -> str:
    """Make the pages; returns what Zensical said where it found something wrong."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "docs", work / "docs")
    for name in (SHIM, STYLE):
        shutil.copy(LOOK / name, work / "docs" / name)
    nav = json.dumps(navigation(work / "docs"), ensure_ascii=False).replace('": ', '" = ')
    text = (LOOK / "zensical.toml").read_text(encoding="utf-8")
    text = text.replace("[project]\n", f"[project]\nnav = {nav}\n", 1).replace("@VERSION@", __version__)
    (work / "zensical.toml").write_text(text, encoding="utf-8")
    program = str(Path(sys.executable).with_name("zensical"))
    done = run([program, "build", "--strict", "--clean"], cwd=work, timeout_s=120)
    if not done.ok:
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    for page in (work / "site").rglob("*.html"):
        ours = os.path.relpath(work / "site" / SHIM, page.parent)
        text = page.read_text(encoding="utf-8").replace(FETCHED_SHIM, ours)
        # In a cell of a table, code keeps the backslash of `\|`: the code itself has none.
        text = re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace(r"\|", "|"), text, flags=re.DOTALL)
        text = LOGIN_LINE.sub(r'<span class="gp">login$</span>\1', text)
        text = TYPED_LINE.sub(r'<span class="typed">\1</span>', with_whole_words(text))
        page.write_text(text, encoding="utf-8")
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(work / "site", site)
    return ""


def with_whole_words(page: str) -> str:
    """Return a page in which no line breaks at a hyphen of an option, a name in code, or a time of days.

    In a cell of a table a long word may break behind each of its parts.
    """
    pieces = re.split(r"(<[^>]*>)", page)
    closed = 0  # tags that are open and whose text stays as it is
    in_code = in_cell = False
    for index, piece in enumerate(pieces):
        tag = re.match(r"<(/?)(pre|script|style|title|svg|code|td)\b", piece)
        if tag and tag[2] == "td":
            in_cell = not tag[1]
            if piece == "<td>" and len("".join(pieces[index + 1 : pieces.index("</td>", index)])) > LONG_TEXT:
                pieces[index] = '<td class="text">'
        elif tag and tag[2] == "code":
            in_code = not tag[1]
            if in_cell and in_code and len(pieces[index + 1]) > LONG_CODE:
                pieces[index] = '<code class="words">'
        elif tag:
            closed += -1 if tag[1] else 1
        elif not piece.startswith("<") and not closed:
            parted = LONG_WORD.sub(parted_word, piece) if in_cell else piece
            pieces[index] = (CODE_WORD if in_code else WHOLE_WORD).sub(r'<span class="whole">\g<0></span>', parted)
    return "".join(pieces)


def parted_word(word: re.Match[str]) -> str:
    """Return a long word that may break behind its parts; a name in capitals has none, a path has many."""
    return (PART_OF_PATH if "/" in word[0] else PART).sub(r"\g<0><wbr>", word[0])


def navigation(docs: Path) -> list[object]:
    """Return the order of the pages: the tabs are the kinds, and each begins with its entrance."""
    pages = find_pages(docs)
    kinds = [kind for kind in KINDS if any(page.kind == kind for page in pages)]
    return [
        {"Muster": "index.md"},
        *({TABS[kind]: [str(page.path.relative_to(docs)) for page in pages if page.kind == kind]} for kind in kinds),
    ]


class Page(HTMLParser):
    """What a page links, what it loads by itself, and the places in it that can be linked."""

    LOADED = ("script", "img", "iframe", "source", "object", "embed", "audio", "video", "use")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep its links and its name."""
        values = {name: value for name, value in attrs if value is not None}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and "canonical" not in values.get("rel", ""):
            self.loads.append(values.get("href", ""))
        elif tag in self.LOADED:
            self.loads += [values[name] for name in ("src", "data", "href") if name in values]


def faults(site: Path) -> Iterator[str]:
    """Yield each link of the site that leads nowhere, and each thing that would be fetched from elsewhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        here = path.relative_to(site)
        for link in page.loads:
            target = urlsplit(link)
            if target.scheme == "data":
                continue
            if target.scheme or target.netloc:
                yield f"{here} fetches {link}"
            elif path.name != "404.html" and not (path.parent / unquote(target.path)).exists():
                yield f"{here} loads {link}, which is not there"
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc or path.name == "404.html":
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{here} links to {link}, which is not there"
            elif target.fragment and file in pages and unquote(target.fragment) not in pages[file].places:
                yield f"{here} links to {link}, which has no such heading"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
