"""Results in notebooks: small tables of HTML, which need nothing else.

Comes in: a result, a training report, an attacker, an ensemble. Goes out: HTML that takes its
colours from the page but for those of the statuses. Names and values are escaped; of large results
there are the totals and the first rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.displays.verification import segments
from carvegbm.statuses import COLOURS, MEANINGS
from carvegbm.wording.shares import percent, percent_interval

if TYPE_CHECKING:
    from carvegbm.attack import Attack
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.ensemble import Ensemble
    from carvegbm.radius import Curve, Radius
    from carvegbm.results import Result
    from carvegbm.totals import VerificationTotals

__all__ = [
    "attacker_html",
    "ensemble_html",
    "result_html",
    "training_html",
    "verification_html",
]

_ROWS = 10
_LONGEST = 80  # characters of a cell
_TRIALS = 60

_RULE = "1px solid rgba(128, 128, 128, 0.35)"
_TABLE = 'style="border-collapse: collapse; margin: 0.4em 0; background: none; color: inherit"'
_CELL = f"padding: 0.15em 0.7em; border: 0; border-bottom: {_RULE}; white-space: nowrap"
_BAR = "display: flex; width: 24em; max-width: 100%; height: 0.8em; margin: 0.4em 0"


def result_html(result: Result) -> str:
    """Any result: what it says as a whole, and its first rows.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> "<td" in result_html(result), "fragile" in result_html(result)
    (True, True)
    """
    from carvegbm.attack import Attack
    from carvegbm.radius import Curve, Radius
    from carvegbm.verification import Verification

    if isinstance(result, Verification):
        whole = verification_html(result._totals)
    elif isinstance(result, Radius):
        whole = _radius(result)
    elif isinstance(result, Curve):
        return _block(_curve(result) + _line(result.note))
    elif isinstance(result, Attack):
        whole = _attack(result)
    else:
        whole = _heading(type(result).__name__, f"{len(result):,} instances")
        attacker = getattr(result, "attacker", None)
        whole += "" if attacker is None else _line(str(attacker))
    return _block(whole + _line(result.note) + _first_rows(result))


def verification_html(totals: VerificationTotals) -> str:
    """The totals of a verification: a bar, and a row per status."""
    n = totals.instances
    parts = "".join(
        f'<span title="{part.status}: {part.count:,}" style="width: {100 * part.share:.4f}%; '
        f'background: {COLOURS[part.status]}"></span>'
        for part in segments(totals)
    )
    rows = [
        (_swatch(status), f"{count:,}", percent(count / n), MEANINGS[status])
        for status, count in totals.counts.items()
        if count or status != "unknown"
    ]
    facts = {"accuracy": percent(totals.accuracy)}
    facts["robustness"] = percent_interval(*totals.robustness)
    return (
        _heading("Verification", f"{n:,} instances")
        + _line(str(totals.attacker))
        + f'<div role="img" aria-label="shares of statuses" style="{_BAR}">{parts}</div>'
        + _line(", ".join(f"{name} {value}" for name, value in facts.items()))
        + _table(("status", "instances", "share", "meaning"), rows, texts=(0, 3), raw=(0,))
        + _line(totals.note)
    )


def training_html(report: Any) -> str:
    """A training report or a tuning: a row per trial, the chosen one in bold, and why it was."""
    headings, *rows = report.rows()
    bold = [i for i, trial in enumerate(report.trials) if trial is report.chosen]
    shown = list(range(min(len(rows), _TRIALS)))
    shown += [i for i in bold if i >= _TRIALS]
    note = "" if len(shown) == len(rows) else _line(f"{len(shown):,} of {len(rows):,} trials")
    return _block(
        _heading(type(report).__name__, f"{len(rows):,} trials, measured on validation data")
        + _table(headings, [rows[i] for i in shown], bold=[shown.index(i) for i in bold])
        + note
        + _line(report.common())
        + _line(report.why)
    )


def attacker_html(attacker: Attacker) -> str:
    """An attacker: its norm, its budget, and what else is said of it, in short.

    Examples
    --------
    >>> from carvegbm import Attacker
    >>> "inf" in attacker_html(Attacker("inf", 0.1))
    True
    """
    facts = {
        name: value if name in ("norm", "budget") else _in_short(value)
        for name, value in attacker.arguments().items()
    }
    return _block(_heading("Attacker", "") + _facts(facts))


def ensemble_html(ensemble: Ensemble) -> str:
    """An ensemble: what it decides, its size, and the first names.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> "binary" in ensemble_html(cg.Ensemble.from_trees([stump], n_features=1))
    True
    """
    features = f"{ensemble.n_features:,}"
    if ensemble.categories:
        features += f", {len(ensemble.categories):,} of them categorical"
    facts: dict[str, Any] = {
        "task": ensemble.task,
        "trees": f"{ensemble.n_trees:,}",
        "leaves": f"{ensemble.n_leaves:,}",
        "features": features,
    }
    if ensemble.feature_names:
        facts["called"] = _in_short(ensemble.feature_names)
    if ensemble.task != "regression":
        facts["classes"] = _in_short(ensemble.classes.tolist())
    facts["inputs"] = ensemble.input_precision
    if ensemble.iterations:
        facts["iterations"] = str(ensemble.iterations)
    return _block(_heading("Ensemble", "") + _facts(facts))


# ── results ──────────────────────────────────────────────────────────────────────────────────


def _radius(radii: Radius) -> str:
    known = radii.radius[radii.exact]
    finite = known[np.isfinite(known) & (known > 0)]
    rows = [("wrong already, radius 0", int(np.count_nonzero(known == 0)), "")]
    ends = ""
    if len(finite):
        low, middle, high = finite.min(), np.median(finite), finite.max()
        ends = f"{low:.6g} to {high:.6g}, median {middle:.6g}"
    rows.append(("flipped by a finite budget", len(finite), ends))
    rows.append(("flipped by none", int(np.count_nonzero(np.isinf(known))), ""))
    if len(known) < len(radii):
        least = f"at least {radii.lower[~radii.exact].min():.6g}"
        rows.append(("not decided", len(radii) - len(known), least))
    table = [(what, f"{count:,}", ends) for what, count, ends in rows]
    heading = _heading("Radius", f"{len(radii):,} instances, norm {radii.norm}")
    return heading + _table(("", "instances", "radius"), table, texts=(0,))


def _curve(curve: Curve) -> str:
    rows = [
        (f"{budget:g}", percent_interval(lower, upper))
        for budget, lower, upper in islice(
            zip(curve.budgets, curve.lower, curve.upper, strict=True), _TRIALS
        )
    ]
    more = len(curve.budgets) - len(rows)
    note = _line(f"the first {len(rows):,} of {len(curve.budgets):,} budgets") if more else ""
    about = f"norm {curve.norm}, accuracy {percent(curve.accuracy)}"
    return _heading("Curve", about) + _table(("budget", "robustness"), rows) + note


def _attack(found: Attack) -> str:
    n, flips = len(found), int(np.count_nonzero(found.success))
    unknown = int(np.count_nonzero(found.status == "unknown"))
    rows: list[tuple[str, str]] = [("can be flipped", f"{flips:,} ({percent(flips / n)})")]
    if unknown:
        rows.append(("not decided", f"{unknown:,} ({percent(unknown / n)})"))
    if flips:
        far = found.distance[found.success]
        ends = f"{far.min():.6g} to {far.max():.6g}, median {np.median(far):.6g}"
        rows.append(("distance of witnesses", ends))
    if found.borderline.any():
        rows.append(("borderline", f"{int(np.count_nonzero(found.borderline)):,}"))
    heading = _heading("Attack", f"{n:,} instances") + _line(str(found.attacker))
    return heading + _table(("", ""), rows, texts=(0,), headed=False)


def _first_rows(result: Result) -> str:
    n = min(len(result), _ROWS)
    columns = {name: column[:n].tolist() for name, column in result.columns().items()}
    rows = [(str(i), *(_cell(values[i]) for values in columns.values())) for i in range(n)]
    title = f"the first {n} of {len(result):,} rows" if n < len(result) else "all rows"
    return (
        f'<details><summary style="cursor: pointer">{title}</summary>'
        + _table(("", *columns), rows)
        + "</details>"
    )


# ── HTML ─────────────────────────────────────────────────────────────────────────────────────


def _block(inner: str) -> str:
    return f'<div style="max-width: 100%; overflow-x: auto">{inner}</div>'


def _heading(title: str, about: str) -> str:
    rest = f": {escape(about)}" if about else ""
    return f"<div><strong>{escape(title)}</strong>{rest}</div>"


def _line(text: str) -> str:
    return f"<div>{escape(text)}</div>" if text else ""


def _swatch(status: str) -> str:
    look = f"display: inline-block; width: 0.7em; height: 0.7em; background: {COLOURS[status]}"
    return f'<span style="{look}"></span> {escape(status)}'


def _facts(facts: Mapping[str, Any]) -> str:
    rows = [(name, _cell(value)) for name, value in facts.items()]
    return _table(("", ""), rows, texts=(0, 1), headed=False)


def _table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Sequence[int] = (),
    raw: Sequence[int] = (),
    bold: Sequence[int] = (),
    headed: bool = True,
) -> str:
    """Numbers on the right, `texts` on the left; all but the columns in `raw` is escaped here."""

    def cell(tag: str, place: int, text: str, weight: str) -> str:
        side = "left" if place in texts else "right"
        style = f"{_CELL}; text-align: {side}{weight}"
        inner = text if place in raw and tag == "td" else escape(text)
        return f'<{tag} style="{style}">{inner}</{tag}>'

    def row(tag: str, cells: Sequence[str], weight: str) -> str:
        return f"<tr>{''.join(cell(tag, i, text, weight) for i, text in enumerate(cells))}</tr>"

    head = f"<thead>{row('th', headings, '')}</thead>" if headed else ""
    body = "".join(
        row("td", cells, "; font-weight: bold" if i in bold else "") for i, cells in enumerate(rows)
    )
    return f"<table {_TABLE}>{head}<tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.6g}"
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _in_short(value: Any) -> str:
    """The first entries of what has many."""
    if isinstance(value, Mapping):
        shown = [f"{key!r}: {_in_short(item)}" for key, item in islice(value.items(), 5)]
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        shown = [_in_short(item) for item in islice(value, 5)]
    else:
        return _cell(value if isinstance(value, float) else repr(value))
    more = f", … {len(value):,} in all" if len(value) > 5 else ""
    return _cell(", ".join(shown)) + more
