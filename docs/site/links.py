"""Checks every link of the built site: the page or file is there, and so is its anchor.

    python docs/site/links.py [FOLDER]

mkdocs checks the links of Markdown. This also sees links that plugins, the theme and docstrings make.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken"]


class _Page(HTMLParser):
    """The links of a page and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "__top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {name for key in ("id", "name") if (name := found.get(key))}
        self.links += [link for key in ("href", "src") if (link := found.get(key)) is not None]


def _read(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed(page.read_text(encoding="utf-8"))
    return parsed


def broken(site: Path) -> list[str]:
    """Links of a folder of pages that lead nowhere, each with its page; links to other hosts are not followed."""
    pages = {page.resolve(): _read(page) for page in site.rglob("*.html")}
    found = []
    for page, parsed in pages.items():
        for link in parsed.links:
            if not _leads_somewhere(link, page, site, pages):
                found.append(f"{page.relative_to(site.resolve())}: {link}")
    return sorted(set(found))


def _leads_somewhere(link: str, page: Path, site: Path, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    path = unquote(parts.path)
    target = (site / path[1:] if path.startswith("/") else page.parent / path).resolve() if path else page
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file():
        return False
    return target not in pages or unquote(parts.fragment) in pages[target].anchors


def main(site: Path) -> None:
    n_pages, found = len(list(site.rglob("*.html"))), broken(site)
    if found or not n_pages:
        sys.exit("\n".join([f"{n_pages} pages; links that lead nowhere:", *found]))
    print(f"{n_pages} pages: every link leads somewhere")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
