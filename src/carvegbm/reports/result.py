"""The report as users see it: results, the document, and files of both kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from carvegbm.storage.files import check_output, replacing
from carvegbm.verification import Verification

__all__ = ["FORMATS", "Report", "write"]

FORMATS = (".html", ".json")
"""What `Report.save` can write."""


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report: the results behind it, and the document that the page is made of.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> made = cg.report(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1), progress=False)
    >>> made.verifications[0].status.tolist(), made.interrupted
    (['robust', 'fragile'], False)
    """

    document: Mapping[str, Any] = field(repr=False)
    verifications: tuple[Verification, ...]
    """One per attacker, of the rows that were judged."""

    @property
    def interrupted(self) -> bool:
        """Whether the work was cut short; rows that nobody looked at are unknown."""
        return bool(self.document["interrupted"])

    def to_dict(self) -> dict[str, Any]:
        """The document, ready for JSON; docs/reports.md describes it."""
        return dict(self.document)

    def html(self) -> str:
        """The page."""
        from carvegbm.reports.page import html

        return html(self.document)

    def save(self, path: Any) -> None:
        """Write the page (.html) or its document (.json); never half a file."""
        target = check_output(path, FORMATS)
        write(self, target, target.suffix)

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """The answers, as a notebook shows them."""
        return "".join(verification._repr_html_() for verification in self.verifications)

    def __str__(self) -> str:
        judged = self.document["data"]["judged"]
        found = [
            f"norm {v.attacker.norm}, budget {v.attacker.budget:g}: {v.summary()}"
            for v in self.verifications
        ]
        found += [v.note for v in self.verifications[:1] if v.note]
        return f"report on {judged} row{'s' * (judged != 1)}: " + "; ".join(found)


def write(report: Report, path: Path, suffix: str) -> None:
    """Write a report in the format of a suffix, whatever the name of the file."""
    if suffix == ".html":
        text = report.html()
    else:
        text = json.dumps(report.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        # Half of a surrogate pair, as in a name that is no UTF-8, is an escape in JSON.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
