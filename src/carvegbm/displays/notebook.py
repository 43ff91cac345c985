"""HTML of results, training reports, attackers and ensembles, which notebooks show.

The HTML has no script and no style sheet; only statuses have colours. Names and values are
escaped, and large results are shown by their totals and first rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.displays.statistics import radius_groups, range_and_median, segments
from carvegbm.statuses import COLOURS, MEANINGS
from carvegbm.storage.text import percent, percent_interval
from carvegbm.tables import html_table

if TYPE_CHECKING:
    from carvegbm.attack import Attack
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.model.ensemble import Ensemble
    from carvegbm.radius import Curve, Radius
    from carvegbm.results import Result
    from carvegbm.totals import VerificationTotals

__all__ = ["attacker_html", "ensemble_html", "result_html", "training_html", "verification_html"]

_MAX_ROWS = 10
_MAX_CELL = 80  # characters
_MAX_TRIALS = 60

_BAR = "display: flex; width: 24em; max-width: 100%; height: 0.8em; margin: 0.4em 0"
_SWATCH = "display: inline-block; width: 0.7em; height: 0.7em; background:"


def result_html(result: Result) -> str:
    """Return totals and first rows of any result."""
    from carvegbm.attack import Attack
    from carvegbm.radius import Curve, Radius
    from carvegbm.verification import Verification

    if isinstance(result, Curve):
        return _block(_curve(result), _line(result.note))
    if isinstance(result, Verification):
        whole = verification_html(result._totals)
    elif isinstance(result, Radius):
        whole = _radius(result)
    elif isinstance(result, Attack):
        whole = _attack(result)
    else:
        whole = _heading(type(result).__name__, f"{len(result):,} instances")
        whole += _line(str(getattr(result, "attacker", "")))
    n = min(len(result), _MAX_ROWS)
    columns = {name: column[:n].tolist() for name, column in result.columns().items()}
    rows = [(str(i), *(_cell(values[i]) for values in columns.values())) for i in range(n)]
    title = f"the first {n} of {len(result):,} rows" if n < len(result) else "all rows"
    table = html_table(rows, ">" * (len(columns) + 1), header=("", *columns))
    summary = f'<summary style="cursor: pointer">{title}</summary>'
    return _block(whole, _line(result.note), f"<details>{summary}{table}</details>")


def verification_html(totals: VerificationTotals) -> str:
    """Return the totals of a verification: a bar, and a row per status."""
    n = totals.instances
    bar = "".join(
        f'<span title="{part.status}: {part.count:,}" style="width: {100 * part.share:.4f}%; '
        f'background: {COLOURS[part.status]}"></span>'
        for part in segments(totals)
    )
    rows = [
        (
            f'<span style="{_SWATCH} {COLOURS[status]}"></span> {status}',
            f"{count:,}",
            percent(count / n),
            MEANINGS[status],
        )
        for status, count in totals.counts.items()
        if count or status != "unknown"
    ]
    robustness = percent_interval(*totals.robustness)
    return (
        _heading("Verification", f"{n:,} instances")
        + _line(str(totals.attacker))
        + f'<div role="img" aria-label="shares of statuses" style="{_BAR}">{bar}</div>'
        + _line(f"accuracy {percent(totals.accuracy)}, robustness {robustness}")
        + html_table(rows, "<>><", header=("status", "instances", "share", "meaning"), markup={0})
        + _line(totals.note)
    )


def training_html(report: Any) -> str:
    """Return the trials of a training report or a tuning, the chosen one in bold, and the reason.

    The chosen trial is shown even if it is not among the first ones.
    """
    header, *rows = report.rows()
    chosen = next(i for i, trial in enumerate(report.trials) if trial is report.chosen)
    shown = [i for i in range(len(rows)) if i < _MAX_TRIALS or i == chosen]
    note = "" if len(shown) == len(rows) else f"{len(shown):,} of {len(rows):,} trials"
    table = [rows[i] for i in shown]
    return _block(
        _heading(type(report).__name__, f"{len(rows):,} trials, measured on validation data"),
        html_table(table, ">" * len(header), header=header, bold={shown.index(chosen)}),
        *map(_line, (note, report.common(), report.why)),
    )


def attacker_html(attacker: Attacker) -> str:
    """Return the arguments of an attacker, long ones abbreviated."""
    facts = {
        name: value if name in ("norm", "budget") else _abbreviated(value)
        for name, value in attacker.arguments().items()
    }
    return _block(_heading("Attacker"), _facts(facts))


def ensemble_html(ensemble: Ensemble) -> str:
    """Return task and size of an ensemble, and its first names."""
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
        facts["called"] = _abbreviated(ensemble.feature_names)
    if ensemble.task != "regression":
        facts["classes"] = _abbreviated(ensemble.classes.tolist())
    facts["inputs"] = ensemble.input_precision
    if ensemble.iterations:
        facts["iterations"] = str(ensemble.iterations)
    return _block(_heading("Ensemble"), _facts(facts))


# ── results ──────────────────────────────────────────────────────────────────────────────────


def _radius(radii: Radius) -> str:
    groups = radius_groups(radii.radius)
    texts = {"wrong": "wrong already, radius 0", "finite": "flipped by a finite budget"}
    texts |= {"infinite": "flipped by none", "undecided": "not decided"}
    values = dict.fromkeys(texts, "")
    if groups["finite"].any():
        values["finite"] = _range_text(radii.radius[groups["finite"]])
    if groups["undecided"].any():
        values["undecided"] = f"at least {radii.lower[groups['undecided']].min():.6g}"
    rows = [
        (text, f"{np.count_nonzero(groups[group]):,}", values[group])
        for group, text in texts.items()
        if group != "undecided" or groups[group].any()
    ]
    heading = _heading("Radius", f"{len(radii):,} instances, norm {radii.norm}")
    return heading + html_table(rows, "<>>", header=("", "instances", "radius"))


def _curve(curve: Curve) -> str:
    bounds = zip(curve.budgets, curve.lower, curve.upper, strict=True)
    rows = [
        (f"{budget:g}", percent_interval(lower, upper))
        for budget, lower, upper in islice(bounds, _MAX_TRIALS)
    ]
    n = len(curve.budgets)
    note = f"the first {len(rows):,} of {n:,} budgets" if n > len(rows) else ""
    heading = _heading("Curve", f"norm {curve.norm}, accuracy {percent(curve.accuracy)}")
    return heading + html_table(rows, ">>", header=("budget", "robustness")) + _line(note)


def _attack(found: Attack) -> str:
    n = len(found)
    counts = {
        "can be flipped": int(np.count_nonzero(found.success)),
        "not decided": int(np.count_nonzero(found.status == "unknown")),
        "borderline": int(np.count_nonzero(found.borderline)),
    }
    rows = [
        (text, f"{count:,} ({percent(count, n)})")
        for text, count in counts.items()
        if count or text == "can be flipped"
    ]
    if found.success.any():
        rows.append(("distance of witnesses", _range_text(found.distance[found.success])))
    heading = _heading("Attack", f"{n:,} instances") + _line(str(found.attacker))
    return heading + html_table(rows, "<>")


def _range_text(values: Any) -> str:
    low, middle, high = range_and_median(values)
    return f"{low:.6g} to {high:.6g}, median {middle:.6g}"


# ── HTML ─────────────────────────────────────────────────────────────────────────────────────


def _block(*parts: str) -> str:
    return f'<div style="max-width: 100%; overflow-x: auto">{"".join(parts)}</div>'


def _heading(title: str, about: str = "") -> str:
    return f"<div><strong>{title}</strong>{escape(f': {about}' if about else '')}</div>"


def _line(text: str) -> str:
    return f"<div>{escape(text)}</div>" if text else ""


def _facts(facts: Mapping[str, Any]) -> str:
    return html_table([(name, _cell(value)) for name, value in facts.items()], "<<")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.6g}"
    text = str(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def _abbreviated(value: Any) -> str:
    """Return the first entries of a collection and their number."""
    if isinstance(value, Mapping):
        shown = [f"{key!r}: {_abbreviated(item)}" for key, item in islice(value.items(), 5)]
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        shown = [_abbreviated(item) for item in islice(value, 5)]
    else:
        return _cell(value if isinstance(value, float) else repr(value))
    more = f", … {len(value):,} in all" if len(value) > 5 else ""
    return _cell(", ".join(shown)) + more
