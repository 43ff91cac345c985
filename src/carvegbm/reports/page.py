"""Render a report document as one HTML file that needs no other file, script or network.

The same document gives the same bytes. Elements with the attribute data-time hold what differs
between two runs on the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from carvegbm import statuses
from carvegbm.reports import charts, formats, sentences
from carvegbm.reports.formats import counted, exactly, name, number, percent, percent_interval
from carvegbm.reports.statistics import CONFIDENCE
from carvegbm.trees.iterations import Iterations
from carvegbm.wording.hidden import on_one_line

__all__ = ["base_style", "html", "page_of"]

Document = Mapping[str, Any]

_CURVE_ROWS = 40
_WEAK_FEATURES = 15
_CHANGES = 12
_OPEN_CLASSES = 12
_TALL = 11
_HATCHES = {"//": "M-2 6L6 -2M2 10L10 2", "\\\\": "M2 -2L10 6M-2 2L6 10"}
_ENGINES = {
    "": "not decided",
    "large-spread": "large-spread",
    "search": "search (branch and bound)",
    "milp": "mixed-integer program",
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("carvegbm.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        counted=counted, name=name, number=number, percent=percent, quoted=formats.quoted
    )
    environment.globals.update(
        chart=charts,
        say=sentences,
        statuses=statuses,
        hatches=_HATCHES,
        percent_interval=percent_interval,
        short=formats.short,
    )
    return environment


def base_style() -> Markup:
    """The style sheet of every page: colours, text, tables, print."""
    return Markup(_environment().get_template("base.css").render())


def page_of(title: str, style: Markup, body: Markup) -> str:
    """A page with this style and body."""
    return (
        _environment()
        .get_template("frame.html")
        .render(title=on_one_line(title), style=style, body=body)
    )


def html(document: Document) -> str:
    """The page of a document (see `carvegbm.reports.document`)."""
    attackers = [_attacker_view(document, i) for i in range(len(document["attackers"]))]
    distances = [_distance_view(document, i, attackers) for i in range(len(document["distances"]))]
    iterations = document["model"].get("iterations")
    traps = [view["zero_trap"] for view in attackers]
    body = (
        _environment()
        .get_template("report.html")
        .render(
            **document,
            views=attackers,
            far=distances,
            note=iterations and Iterations(**iterations).note,
            traps=[trap for i, trap in enumerate(traps) if trap and trap not in traps[:i]],
            confidence=CONFIDENCE,
            unknown=sum(view["counts"]["unknown"] for view in attackers),
            engines=_engine_table(attackers),
            proofs=_proof_table(attackers),
            overview=_overview_table(attackers),
            facts=_fact_table(document),
            spent=_time_table(document, attackers, distances),
        )
    )
    style = base_style() + Markup(_environment().get_template("report.css").render())
    return page_of(f"How robust is {formats.short(document['model']['name'])}?", style, Markup(body))


@dataclass(frozen=True)
class Table:
    """A table; text cells are escaped, the first cell of a row names it."""

    id: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    texts: tuple[int, ...] = (0,)
    """Columns of text; the others hold numbers and are aligned to the right."""
    long_names: bool = False
    narrow: bool = False

    @property
    def box(self) -> str:
        """CSS classes of the scrolling box; tall tables of numbers print in columns."""
        tall = len(self.rows) > _TALL and len(self.header) <= 5 and self.texts == (0,)
        wide = len(self.header) > 2
        return "scroll" + " narrow" * self.narrow + " tall" * tall + " wide" * (tall and wide)


# ── views: entries of the document with their tables and titles ──────────────────────────────


def _attacker_view(document: Document, place: int) -> dict[str, Any]:
    entry, features = document["attackers"][place], document["model"]["features"]
    limited = sentences.is_limited(entry, features)
    title = f"Attacker {place + 1}: {sentences.describe_attacker(entry['attacker'])}"
    return {
        **entry,
        "title": title + "; with limits" * limited,
        "limited": limited,
        "limits": sentences.limits(entry, features),
        "segments": statuses.in_a_bar(entry["counts"], entry["undecided"]),
        "table": _class_table(entry, place),
        "is_open": len(document["attackers"]) <= 2 and len(entry["classes"]) <= _OPEN_CLASSES,
    }


def _distance_view(
    document: Document, place: int, attackers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    distance, features = document["distances"][place], document["model"]["features"]
    own = [(i + 1, one) for i, one in enumerate(attackers) if one["distance"] == place]
    numbers = ", ".join(str(i) for i, _ in own)
    measure = sentences.describe_norm(distance["norm"])
    limited = "; with limits" * sentences.is_limited(distance, features)
    view = {
        **distance,
        "title": f"Norm {distance['norm']}: {measure}{limited} "
        f"(attacker{'s' * (len(own) > 1)} {numbers})",
        "limits": sentences.limits(distance, features),
        "attackers": [one for _, one in own],
        "measure": measure,
        "marks": [(one["budget"], one["counts"]["robust"] / one["instances"]) for _, one in own],
        "zero_trap": any(one["zero_trap"] for _, one in own),
    }
    view["stays_table"] = _stays_table(view, place)
    view["curve_table"] = _curve_table(view, place)
    view["radius_table"] = _radius_table(view, place)
    view["weak_table"] = _weak_table(view, place)
    view["first_table"] = _first_table(document, view, place)
    view["witness_views"] = [
        _witness_view(document, view, place, i) for i in range(len(distance["shown"]))
    ]
    return view


def _class_table(entry: Document, place: int) -> Table:
    found = [status for status in statuses.STATUSES if entry["counts"][status]]
    every = [{**entry, "class": None}, *entry["classes"]]
    return Table(
        f"classes-{place + 1}",
        "Rows by class and status.",
        ["Class", "rows", "accuracy", "robustness", *found],
        [
            [
                "all" if i == 0 else name(one["class"]),
                f"{one['instances']:,}",
                percent(one["accuracy"]),
                percent_interval(*one["robustness"]),
                *(f"{one['counts'][status]:,}" for status in found),
            ]
            for i, one in enumerate(every)
        ],
    )


def _overview_table(attackers: Sequence[Document]) -> Table:
    sampled = attackers[0]["population"] is not None
    return Table(
        "overview",
        "Robustness: the share of rows that are right and stay right whatever the attacker does.",
        ["Attacker", "accuracy", "robustness", "robust", "fragile", "unknown"]
        + [f"robustness of all rows, {100 * CONFIDENCE:g}\u00a0% confidence"] * sampled,
        [
            [
                Markup('<a href="#attacker-{}">{}</a>').format(place, one["title"]),
                percent(one["accuracy"]),
                percent_interval(*one["robustness"]),
                *(f"{one['counts'][status]:,}" for status in ("robust", "fragile", "unknown")),
                *([percent_interval(*one["population"]["robustness"])] if sampled else []),
            ]
            for place, one in enumerate(attackers, 1)
        ],
        long_names=True,
    )


def _stays_table(view: Document, place: int) -> Table:
    return Table(
        f"far-{place + 1}-stays",
        "Budgets at which most right rows stay right; between the two bounds it is not decided.",
        ["Share of the right rows", "stays right at every budget below", "not at every budget up to"],
        [
            [
                percent(one["share"]),
                sentences.budget_below(one["lower"]),
                "–"
                if one["upper"] is None
                else exactly(one["upper"], number(one["upper"], 6, "up")),
            ]
            for one in view["stays"]
        ],
        narrow=True,
    )


def _curve_table(view: Document, place: int) -> Table:
    curve, asked = view["curve"], {one["budget"] for one in view["attackers"]}
    steps = list(zip(curve["budgets"], curve["lower"], curve["upper"], strict=True))
    ends = [*curve["budgets"][1:], float("inf")]
    stride = -(-len(steps) // _CURVE_ROWS)
    rows = []
    for i, ((budget, low, high), end) in enumerate(zip(steps, ends, strict=True)):
        if i % stride == 0 or i == len(steps) - 1 or budget in asked:
            text = exactly(budget, formats.number_between(budget, end))
            text = Markup("<b>{}</b>").format(text) if budget in asked else text
            rows.append([text, percent_interval(low, high)])
    caption = "Robustness from each budget up to the next, exactly; attackers’ budgets are bold."
    if stride > 1:
        caption += f" One of {stride} steps is listed."
    return Table(f"far-{place + 1}-curve", caption, ["Budget", "robustness"], rows)


def _radius_table(view: Document, place: int) -> Table:
    rows = []
    for bar in view["histogram"]:
        span = number(bar["from"], 9)
        if bar["from"] != bar["to"]:
            span = f"{number(bar['from'], 6)} to {number(bar['to'], 6)}"
        rows.append([span, f"{bar['count']:,}"])
    caption = "Rows by the smallest budget that flips them (their radius)."
    return Table(f"far-{place + 1}-radii", caption, ["Radius", "rows"], rows)


def _optional(value: float | None) -> str | Markup:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else exactly(value, number(value))


def _weak_table(view: Document, place: int) -> Table:
    columns = ("alone", "up", "down", "smallest", "median", "largest")
    caption = (
        "Per feature: witnesses that change it, as their only change, upwards and downwards; and "
        "the size of the changes."
    )
    return Table(
        f"weak-{place + 1}-features",
        caption,
        ["Feature", "witnesses", "share", *columns],
        [
            [
                name(one["name"]),
                f"{one['rows']:,}",
                percent(one["share"]),
                *(_optional(one[column]) for column in columns),
            ]
            for one in view["weak"][:_WEAK_FEATURES]
        ],
        long_names=True,
    )


def _first_table(document: Document, view: Document, place: int) -> Table:
    rows = []
    for witness in (view["witnesses"][i] for i in view["first"]):
        row = witness["row"]
        size = exactly(witness["distance"], number(witness["distance"]))
        answers = document["rows"]["answer"][row], witness["answer"]
        rows.append(
            [
                f"{document['rows']['number'][row]:,}",
                size if witness["nearest"] else "≤ " + size,
                Markup("{} → {}").format(*(name(answer, 24) for answer in answers)),
                sentences.changes(witness, 1),
            ]
        )
    return Table(
        f"weak-{place + 1}-first",
        "Rows of the data, numbered from 0, with the smallest changes found that flip them.",
        ["Row", "size", "answer", "what changes"],
        rows,
        texts=(0, 2, 3),
    )


def _witness_view(document: Document, view: Document, place: int, shown: int) -> dict[str, Any]:
    entry = view["shown"][shown]
    witness = view["witnesses"][entry["witness"]]
    row, rows = witness["row"], document["rows"]
    changes = sentences.largest_first(witness["changes"])
    more = f", the largest {_CHANGES} of them" * (len(changes) > _CHANGES)
    lower = view["radius"]["lower"][row]
    found = {
        **witness,
        "number": rows["number"][row],
        "answered": rows["answer"][row],
        "why": {
            "first": "the nearest witness found",
            "typical": "the witness at the median distance",
            "class": Markup("the nearest witness found of class {}").format(
                formats.quoted(rows["label"][row])
            ),
        }[entry["why"]],
        "size": exactly(witness["distance"], number(witness["distance"], 6)),
        "least": exactly(lower, number(lower, 6, "down")),
        "table": Table(
            f"witnesses-{place + 1}-{shown + 1}",
            f"{counted(len(changes), 'change')}{more}; all other features stay as they are.",
            ["Feature", "before", "after", "change"],
            [
                [
                    name(change["name"]),
                    *sentences.before_and_after(change),
                    sentences.change_size(change),
                ]
                for change in changes[:_CHANGES]
            ],
            long_names=True,
        ),
    }
    if view["images"] is not None:
        found["image"] = _image(view["images"], shown, found)
    return found


def _image(images: Document, shown: int, witness: Document) -> Markup:
    low, high = images["low"], images["high"]
    before, after = (images["pictures"][shown][side] for side in ("before", "after"))
    changed = [i for i, (x, z) in enumerate(zip(before, after, strict=True)) if x != z]

    def level(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.0

    title, count = f"Row {witness['number']:,}", counted(len(changed), "changed pixel")
    return charts.image_pair(
        [level(x) for x in before],
        {i: level(after[i]) for i in changed},
        (images["height"], images["width"]),
        (
            f"{title}: original, answered {formats.short(witness['answered'])}",
            f"{title}: changed, answered {formats.short(witness['answer'])}; {count} outlined",
        ),
        Markup("<b>{}</b> {} → {}, {}").format(
            title, formats.quoted(witness["answered"]), formats.quoted(witness["answer"]), count
        ),
        {i: after[i] > before[i] for i in changed},
    )


# ── how it was decided ───────────────────────────────────────────────────────────────────────


def _engine_table(attackers: Sequence[Document]) -> Table:
    engines = sorted({engine for one in attackers for engine in one["engines"]})
    return Table(
        "engine-counts",
        "Rows by the engine that decided them.",
        ["Attacker", *(_ENGINES.get(engine, engine) for engine in engines)],
        [
            [one["title"], *(f"{one['engines'].get(engine, 0):,}" for engine in engines)]
            for one in attackers
        ],
        long_names=True,
    )


def _proof_table(attackers: Sequence[Document]) -> Table:
    rows = []
    for one in attackers:
        if (proof := one["proof"]) is None:
            rows.append([one["title"], *["–"] * 5, "not written"])
            continue
        verdict = f"{'checked' if proof['checked'] else 'not all checked'}: {proof['said']}"
        counts = (f"{proof[key]:,}" for key in ("bytes", "proved", "unproved"))
        files = name(proof["file"]), _code(proof["sha256"])
        rows.append([one["title"], *files, *counts, name(verdict, 200)])
    return Table(
        "proof-files",
        "Proofs that were written, and what the checker said of them.",
        ["Attacker", "file", "SHA-256", "bytes", "proved", "not proved", "checker"],
        rows,
        texts=(0, 1, 2, 6),
        long_names=True,
    )


def _code(text: str | None) -> Markup:
    return Markup("<code>{}</code>").format(name(text, 80)) if text else Markup("")


def _fact_table(document: Document) -> Table:
    model, data = document["model"], document["data"]
    size = (
        f"{counted(model['trees'], 'tree')}, {counted(model['leaves'], 'leaf', 'leaves')}, "
        f"{counted(model['features'], 'feature')}, "
        f"{counted(len(model['classes']), 'class', 'classes')}"
    )
    facts: list[tuple[str, Any]] = [
        ("Model", name(model["name"], 200)),
        ("… SHA-256 of its content", _code(model["sha256"])),
        ("… SHA-256 of its file", _code(model["file_sha256"])),
        ("… size", size),
        ("Data", name(data["name"], 200)),
        ("… SHA-256 of the rows analysed", _code(data["sha256"])),
        ("… SHA-256 of the file", _code(data["file_sha256"])),
        ("… rows", f"{data['rows']:,}, of which {data['judged']:,} were analysed"),
        ("… missing values", f"{data['missing']:,}"),
        *((f"Setting: {key}", _setting(value)) for key, value in document["settings"].items()),
        *((f"Version: {key}", name(value)) for key, value in document["versions"].items() if value),
    ]
    return Table(
        "facts",
        "The inputs of this report and what computed it; the time limit is in seconds per row and "
        "query.",
        ["What", "value"],
        [fact for fact in facts if fact[1]],
        texts=(0, 1),
        long_names=True,
    )


def _setting(value: Any) -> str | Markup:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(float(value), 17)
    return "none" if value is None else name(value)


def _time_table(
    document: Document, attackers: Sequence[Document], distances: Sequence[Document]
) -> Table:
    times = document["times"]
    rows = [
        [f"verifying, {one['title']}", _seconds(spent), _seconds(slowest)]
        for one, spent, slowest in zip(attackers, times["verify"], times["slowest"], strict=True)
    ]
    for what, key in (("radii", "measure"), ("witnesses", "witnesses")):
        for one, spent in zip(distances, times[key], strict=True):
            rows.append([f"{what}, {one['title']}", _seconds(spent), "–"])
    rows.append(["all", _seconds(times["seconds"]), "–"])
    return Table(
        "times-spent",
        f"Made {sentences.date(times['date'])}. Two reports of the same inputs differ in times "
        "only.",
        ["Work", "seconds", "slowest row"],
        rows,
        long_names=True,
    )


def _seconds(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.01 else "< 0.01"
