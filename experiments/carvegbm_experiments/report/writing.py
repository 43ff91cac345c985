"""The report as files: one page and one Markdown file, beside the cells they are drawn from."""

from __future__ import annotations

from collections.abc import Callable

from carvegbm import CarveError
from carvegbm_experiments.report import markdown, page
from carvegbm_experiments.store.folder import Store

__all__ = ["MARKDOWN", "PAGE", "write_report"]

MARKDOWN, PAGE = "results.md", "index.html"


def write_report(store: Store, suite: str, say: Callable[[str], object] | None) -> None:
    """Write both from all finished cells of the suite.

    A page that cannot be drawn (matplotlib is missing) is said in one line, and the rest stands.
    """
    cells = store.cells(suite)
    tell = say or (lambda _: None)
    drawn = []
    try:
        drawn.append(store.write(PAGE, page.html(cells)))
    except CarveError as error:
        tell(f"no page: {error}")
    written = store.write(MARKDOWN, markdown.markdown(cells, page=PAGE if drawn else None))
    tell("wrote " + " and ".join(map(str, [written, *drawn])))
