"""muster docs: the documents in the terminal: all pages by kind, or one page drawn."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from muster import __version__
from muster.cli.command_line import JSON, CommandLine, Words
from muster.cli.output import print_json
from muster.errors import MusterError, RequestError, UnknownName
from muster.job.option import option

# Folder → what it is for, in the order in which a newcomer needs them.
KINDS = {
    "tutorial": "learn: one job, step by step",
    "guides": "do: one task each",
    "reference": "look up",
    "explanation": "understand",
    "sites": "the clusters whose rules are known",
    "by-hand": "what a site's wiki says, and what does it now",
    "contributing": "change Muster",
}


class Page(NamedTuple):
    """One document."""

    name: str
    """As it is typed: its file's name, with the folder where another page has the same."""

    kind: str
    title: str
    path: Path


def main(words: Words) -> int:
    """List the pages, or show one."""
    if words.operands and (words.json or words.man is not None):
        option_name = "--json lists" if words.json else "--man writes"
        raise RequestError(f"{option_name} all pages, and not {words.operands[0]} alone", hint="muster docs PAGE")
    if words.man is not None:
        return _write_man_pages(words.man)
    pages = find_pages(documents_folder())
    if words.operands:
        _show(_choose(words.operands[0], pages))
    elif words.json:
        print_json([{"page": page.name, "kind": page.kind, "title": page.title} for page in pages])
    else:
        print("\n".join(_contents(pages)))
    return 0


def _write_man_pages(folder: str) -> int:
    from muster.cli.man_page import write_man_pages

    paths = write_man_pages(Path(folder))
    print(f"{len(paths)} manual pages in {paths[0].parent}\n\nhint: export MANPATH={paths[0].parent.parent.resolve()}:")
    return 0


def documents_folder() -> Path:
    """Return the folder of the documents: beside the package in a wheel, above it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "docs", package.parent.parent / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise MusterError("the documents are not beside this Muster", hint="install it with pip, or run it in its checkout")


def find_pages(folder: Path) -> list[Page]:
    """Return every page of a folder of documents, by kind; the entrance of a kind is its first."""
    paths = [path for kind in KINDS for path in sorted((folder / kind).rglob("*.md"), key=_entrance_first)]
    owners: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: not _is_entrance(path)):
        owners.setdefault(_name(path), path)
    return [
        Page(
            name=_name(path) if owners[_name(path)] == path else f"{path.parent.name}/{_name(path)}",
            kind=path.relative_to(folder).parts[0],
            title=_title(path),
            path=path,
        )
        for path in paths
    ]


def _is_entrance(path: Path) -> bool:
    return path.stem in {"index", "README"}


def _entrance_first(path: Path) -> tuple[bool, str]:
    return not _is_entrance(path), path.stem


def _name(path: Path) -> str:
    return path.parent.name if _is_entrance(path) else path.stem


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip().replace("`", "") for line in lines if line.startswith("# ")), path.stem)


def _choose(typed_name: str, pages: Sequence[Page]) -> Page:
    """Return the page of a name, of a path below docs, or of a path as the documents link it."""
    wanted_name = typed_name.removeprefix("docs/").removesuffix(".md").lower().rstrip("/")
    for page in pages:
        if wanted_name in {page.name, f"{page.kind}/{page.path.stem}"}:
            return page
    schema = documents_folder() / "reference" / "profile.schema.json"
    if Path(wanted_name).name == schema.name:
        return Page(schema.name, "reference", "the keys of a profile", schema)
    raise UnknownName("page", typed_name, [page.name for page in pages], listed_by="muster docs")


def _contents(pages: Sequence[Page]) -> Iterator[str]:
    import shutil

    width = max(20, min(shutil.get_terminal_size().columns, 120))
    column = max(len(page.name) for page in pages) + 4
    yield from (f"The documents of Muster {__version__}", "")
    for kind, purpose in KINDS.items():
        yield f"{kind} ({purpose})"
        for page in (page for page in pages if page.kind == kind):
            if width < 60:
                yield f"  {page.name}"
                yield from textwrap.wrap(page.title, width, initial_indent=" " * 4, subsequent_indent=" " * 4)
                continue
            head = f"  {page.name}".ljust(column)
            yield from textwrap.wrap(page.title, width, initial_indent=head, subsequent_indent=" " * column)
        yield ""
    yield "muster docs PAGE shows one."


def _show(page: Page) -> None:
    """Draw a page on a terminal, through its pager where it is longer than the screen; print its source elsewhere."""
    text = page.path.read_text(encoding="utf-8")
    if not sys.stdout.isatty() or page.path.suffix != ".md":
        print(text, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(no_color=bool(os.environ.get("NO_COLOR")) or None)
    rendered = Markdown(text, hyperlinks=False)
    if len(console.render_lines(rendered)) < console.height or os.environ.get("TERM") in {None, "", "dumb"}:
        console.print(rendered)
        return
    os.environ.setdefault("LESS", "FRX")
    with console.pager(styles=True):
        console.print(rendered)


COMMAND = CommandLine(
    name="docs",
    start=main,
    summary="""\
Show a page of the documents in the terminal, or list all pages: a tutorial, how-tos, reference, explanation, and a page
for each site. Into a file or a pipe a page is written as Markdown.""",
    options=(
        option("--man DIR", "write a manual page for each verb into this folder: share/man"),
        JSON,
    ),
    operands="[PAGE]",
    most=1,
    hint="muster docs lists the pages",
    examples=("muster docs first-job",),
)
