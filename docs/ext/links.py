"""Links out of docs/ lead somewhere on the site, too.

Pages are written to be read in the repository, where `../experiments/results/results.md` is a file.
On the site, files that have a page (HOMES) become links to it; every other file of the repository
becomes a download, which MyST makes of it. Comes in: the text of a page, or of a file that a page
includes. Goes out: the text with its links turned.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
HOMES = {
    "README.md": "index",
    "CONTRIBUTING.md": "project/contributing",
    "CHANGELOG.md": "project/changelog",
    "SECURITY.md": "project/security",
    "benchmarks/README.md": "project/benchmarks",
    "experiments/README.md": "project/evaluation",
    "experiments/results/results.md": "project/results",
}
"""Which page of the site a file of the repository is, as it is included there."""
_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")


def turned(text: str, source: Path, page: Path, docs: Path) -> str:
    """The text of `source` as it stands on `page`: every link leads where it led before."""
    repository = docs.parent

    def turn(found: re.Match[str]) -> str:
        target, anchor = found[1], found[2] or ""
        if re.match(r"[a-z][a-z+.-]*:", target):
            return found[0]
        place = Path(os.path.normpath(source.parent / target))
        if not place.is_file():
            LOGGER.warning("%s: no file %s", source.relative_to(repository), target)
            return found[0]
        home = HOMES.get(place.relative_to(repository).as_posix())
        if home is not None:
            place = docs / f"{home}.md"
        return Path(os.path.relpath(place, page.parent)).as_posix() + anchor

    lines, inside = [], False
    for line in text.split("\n"):
        inside ^= bool(_FENCE.match(line))
        lines.append(line if inside else _LINK.sub(turn, line))
    return "\n".join(lines)


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md" and page.exists():
        content[0] = turned(content[0], page, page, Path(app.srcdir))


def _included(app: Sphinx, relative: Path, _docname: str, content: list[str]) -> None:
    docs = Path(app.srcdir)
    source = Path(os.path.normpath(docs / relative))
    home = HOMES.get(source.relative_to(docs.parent).as_posix())
    if home is not None:  # MyST names the page without its folder; HOMES knows it
        content[0] = turned(content[0], source, docs / f"{home}.md", docs)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    app.connect("include-read", _included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
