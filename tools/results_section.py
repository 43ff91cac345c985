"""Write all that is said of the stored results from the cells: page, Markdown, README.

    python tools/results_section.py             rewrite them
    python tools/results_section.py --check     exit 1 if one is out of date, change nothing

The cells are in experiments/results, and so are the page and the Markdown file. README.md has what
stands between a line `<!-- results -->` and a line `<!-- /results -->`.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

from carvegbm import CarveError
from carvegbm_experiments.report.markdown import brief, markdown
from carvegbm_experiments.report.page import html
from carvegbm_experiments.report.writing import MARKDOWN, PAGE
from carvegbm_experiments.store.folder import Store
from carvegbm_experiments.store.records import write_text

OPENING, CLOSING = "<!-- results -->\n", "<!-- /results -->"
REPOSITORY = Path(__file__).resolve().parent.parent
README, RESULTS = "README.md", "experiments/results"


def texts(folder: Path) -> dict[str, str]:
    """What every file should be, by its name in the repository."""
    cells = Store(folder / RESULTS).cells("paper")
    sentences = (
        "The paper's evaluation is one command ([how to repeat it](experiments/README.md)). "
        f"{brief(cells)} Every table is in [the results]({RESULTS}/{MARKDOWN}), with figures in "
        f"[one page]({RESULTS}/{PAGE})."
    )
    section = textwrap.fill(sentences, 100, break_on_hyphens=False)
    return {
        README: replaced(README, (folder / README).read_text("utf-8"), section),
        f"{RESULTS}/{MARKDOWN}": markdown(cells, page=PAGE),
        f"{RESULTS}/{PAGE}": html(cells),
    }


def replaced(name: str, text: str, section: str) -> str:
    """The text with a new section between its markers."""
    before, opening, rest = text.partition(OPENING)
    _, closing, after = rest.partition(CLOSING)
    if not opening or not closing:
        raise CarveError(f"{name}: there are no lines {OPENING.strip()} and {CLOSING}; add them")
    return f"{before}{OPENING}\n{section}\n\n{CLOSING}{after}"


def comparable(text: str) -> str:
    """Without drawings: another version of matplotlib draws the same data in other bytes."""
    return re.sub(r"<svg\b.*?</svg>", "", text, flags=re.S)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    parser.add_argument("--folder", type=Path, default=REPOSITORY, help="the repository")
    options = parser.parse_args(arguments)
    stale = []
    try:
        for name, new in texts(options.folder).items():
            path = options.folder / name
            old = path.read_text("utf-8") if path.exists() else ""
            if comparable(new) == comparable(old):
                continue
            stale.append(name)
            if not options.check:
                write_text(path, new)
    except (CarveError, OSError) as error:
        print(f"results_section: {error}", file=sys.stderr)
        return 2
    verb = "out of date, run tools/results_section.py" if options.check else "written"
    print(*(f"{name}: {verb}" for name in stale), sep="\n", end="\n" if stale else "")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
