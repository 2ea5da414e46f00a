"""The parts of the site that are not pages of docs: README, CONTRIBUTING and CHANGELOG, the reference, formulas.

The README is the first page, and docs/index.md the page `pages`. The reference has a page for each section of the API
page, from docstrings. Formulas become MathML when the site is built, so that no page loads a script for them.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from make_api import public_names  # noqa: E402

OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages at the root of the source, and their names on the site."""
PAGES = {"index.md": "pages.md"}
"""Pages of docs that have another name on the site."""
TARGET = re.compile(r"\]\((?:\.\./|docs/)?([\w./-]+\.\w+)(#[\w-]+)?\)")
"""A link to a file: out of docs, from outside into docs, or beside the page."""
FORMULA = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$(?!\s)([^$]+?)(?<!\s)\$")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand outside docs, and those of the reference."""
    old = files.get_file_from_path("index.md")
    files.remove(old)
    made = {name: (ROOT / source).read_text(encoding="utf-8") for source, name in OUTSIDE.items()}
    made |= {PAGES["index.md"]: old.content_string} | _reference()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, with links for the site and formulas as MathML."""
    deep = "/" in page.file.src_uri  # a page in a folder of docs: its links upwards stay inside docs
    return _with_formulas(markdown if deep else TARGET.sub(_relinked, markdown))


def _relinked(link: re.Match[str]) -> str:
    """A link as it is on the site, where docs and the pages beside it are one folder."""
    path, anchor = link[1], link[2] or ""
    return f"]({OUTSIDE.get(path) or PAGES.get(path, path)}{anchor})"


def _with_formulas(markdown: str) -> str:
    """The formulas of a page as MathML: blocks, and those in lines outside code."""
    markdown = FORMULA.sub(lambda found: f'<div class="formula">{convert(found[1], display="block")}</div>', markdown)
    parts = CODE.split(markdown)  # every second part is code
    parts[::2] = [INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", part) for part in parts[::2]]
    return "".join(parts)


def _reference() -> dict[str, str]:
    """A page for each section of the API page."""
    return {
        f"reference/{title.lower().replace(' ', '-')}.md": "\n".join([f"# {title}\n", *map(_module, modules.items())])
        for title, modules in public_names().items()
    }


def _module(of: tuple[str, dict[str, Any]]) -> str:
    """A module and its public names, for mkdocstrings."""
    path, names = of
    told = [line for name, value in names.items() for line in (f"::: psimlearn.{path}.{name}\n", *_methods(value))]
    return "\n".join([f"## psimlearn.{path}\n", *told])


def _methods(value: Any) -> list[str]:
    """The methods of a class that are functions of other modules: mkdocstrings does not follow them."""
    if not inspect.isclass(value):
        return []
    members = [getattr(member, "fn", member) for name, member in vars(value).items() if not name.startswith("_")]
    functions = [member for member in members if inspect.isfunction(member) and member.__module__ != value.__module__]
    options = "    options:\n      heading_level: 4\n"
    return [f"::: {function.__module__}.{function.__name__}\n{options}" for function in functions]
