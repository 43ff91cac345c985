"""Write the results sections of README.md and docs/results.md from the results folder.

    python tools/results_section.py             rewrite them
    python tools/results_section.py --check     exit 1 if one is out of date, change nothing

A section is what stands between a line `<!-- results -->` and a line `<!-- /results -->`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from carvegbm.errors import CarveError
from carvegbm.files import replacing
from carvegbm.reproduce import summary
from carvegbm.reproduce.store import Store
from carvegbm.reproduce.tables import Cells

OPENING, CLOSING = "<!-- results -->\n", "<!-- /results -->"
REPOSITORY = Path(__file__).resolve().parent.parent


def sections(folder: Path) -> dict[str, str]:
    """The text of every section, by the file it belongs to."""
    cells = Cells(Store(folder / "results").cells("paper"))
    page = (folder / "results" / "index.html").is_file()
    readme = ["All tables are in [the results](docs/results.md)"]
    readme += ["with figures in [one page](results/index.html)"] if page else []
    guide = "The same with figures is in [one page](../results/index.html).\n\n" if page else ""
    return {
        "README.md": f"{summary.overview(cells)}\n{', '.join(readme)}.\n",
        "docs/results.md": guide + summary.body(cells),
    }


def replaced(name: str, text: str, section: str) -> str:
    """The text with a new section between its markers."""
    before, opening, rest = text.partition(OPENING)
    _, closing, after = rest.partition(CLOSING)
    if not opening or not closing:
        raise CarveError(f"{name}: there are no lines {OPENING.strip()} and {CLOSING}; add them")
    return f"{before}{OPENING}\n{section}\n{CLOSING}{after}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    parser.add_argument("--folder", type=Path, default=REPOSITORY, help="the repository")
    options = parser.parse_args(arguments)
    stale = []
    try:
        for name, section in sections(options.folder).items():
            path = options.folder / name
            old = path.read_text("utf-8")
            new = replaced(name, old, section)
            if new == old:
                continue
            stale.append(name)
            if not options.check:
                with replacing(path) as temporary:
                    temporary.write_text(new, encoding="utf-8")
    except (CarveError, OSError) as error:
        print(f"results_section: {error}", file=sys.stderr)
        return 2
    verb = "out of date, run tools/results_section.py" if options.check else "written"
    print(*(f"{name}: {verb}" for name in stale), sep="\n", end="\n" if stale else "")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
