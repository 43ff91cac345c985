"""Section 6, how it was decided: engines, what is proved and what is not, hashes, versions, times.

Comes in: the document. Goes out: HTML. What comes from `times`, the only part in which two reports
of the same inputs differ, stands in elements with the attribute data-time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from carvegbm.reports.page.attackers import asked_title, distance_title
from carvegbm.reports.page.numbers import counted, number
from carvegbm.reports.page.sections.spread import is_it_easy
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.tables import Table, opened
from carvegbm.reports.page.text import said, shown_name
from carvegbm.storage.text import on_one_line

__all__ = ["how_it_was_decided", "when"]

_ENGINES = {
    "": "nobody: not decided",
    "large-spread": "large-spread: no search",
    "search": "search: branch and bound",
    "milp": "mixed-integer program",
}


def how_it_was_decided(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    every = [Asked(document, place) for place in range(len(document["attackers"]))]
    return (
        f'<article><h3 id="proved">What is proved, and what is not</h3>'
        f"<ul>{''.join(f'<li>{item}</li>' for item in _proved(document, every))}</ul></article>"
        f'<article><h3 id="engines">Who decided</h3>{_engines(every)}</article>'
        f'<article><h3 id="large-spread">Is the model easy to verify?</h3>{is_it_easy(document)}'
        "</article>"
        f'<article><h3 id="proofs">Proofs</h3>{_proofs(every)}</article>'
        f'<article><h3 id="inputs">Inputs, settings and versions</h3>{_facts(document)}</article>'
        f"{_times(document)}"
    )


def _proved(document: Mapping[str, Any], every: list[Asked]) -> list[str]:
    found = [
        said(
            "A verdict is a theorem about the model: “robust” and “vulnerable” mean that no change "
            "within the budget flips the row; “fragile” and “broken” come with a changed row that "
            "does. No tolerance and no sampling of changes is involved."
        ),
        said(
            "It speaks of the rows judged and of the attackers named here, and of no others: not "
            "of rows to come, nor of an attacker who does something else."
        ),
    ]
    unknown = sum(int(asked.counts["unknown"]) for asked in every)
    if unknown:
        what = "verdict is" if unknown == 1 else "verdicts are"
        found.append(
            said(
                f"{unknown:,} {what} unknown: "
                + ("the work was cut short." if document["interrupted"] else "time ran out.")
                + " They count neither as robust nor as fragile; every number they touch is given "
                "as an interval."
            )
        )
    if document["data"]["judged"] < document["data"]["rows"]:
        found.append(
            said(
                "Rows were sampled: what is said of all rows holds with the confidence stated, not "
                "by proof."
            )
        )
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
    undecided = sum(distance.undecided for distance in distances)
    if undecided:
        radii = "1 radius is" if undecided == 1 else f"{undecided:,} radii are"
        found.append(said(f"{radii} known between bounds only."))
    borderline = sum(
        bool(witness["borderline"]) for one in document["distances"] for witness in one["witnesses"]
    )
    if borderline:
        what = "witness is" if borderline == 1 else "witnesses are"
        found.append(
            said(
                f"{borderline:,} {what} borderline: closer to the decision threshold than the "
                "model library's own rounding, which may answer either way."
            )
        )
    missed = sum(int(one["missed"]) for one in document["distances"])
    if missed:
        found.append(
            said(f"For {counted(missed, 'row')} that can be flipped, no nearest witness was found.")
        )
    if document["interrupted"]:
        found.append(said("The work was cut short; rows not looked at are unknown."))
    return found


def _engines(every: list[Asked]) -> str:
    names = sorted({engine for asked in every for engine in asked.engines})
    rows = [
        [said(asked_title(asked)), *(f"{asked.engines[name]:,}" for name in names)]
        for asked in every
    ]
    header = ["Attacker", *(_ENGINES.get(name, name) for name in names)]
    caption = said("Rows by the engine that decided them.")
    return opened(Table("engine-counts", caption, header, rows, has_long_names=True))


def _proofs(every: list[Asked]) -> str:
    found = [(asked, asked.document["proof"]) for asked in every]
    if all(proof is None for _, proof in found):
        text = (
            "No proofs were written. With --proof FILE, carvegbm writes down why every verdict "
            "holds, and a checker that shares no code with it goes through the file."
        )
        return f"<p>{said(text)}</p>"
    rows = []
    for asked, proof in found:
        cells = [said(asked_title(asked))]
        if proof is None:
            rows.append([*cells, *["–"] * 5, "not written"])
            continue
        verdict = "checked: " if proof["checked"] else "not all checked: "
        verdict += str(proof["said"] or "")
        rows.append(
            [
                *cells,
                shown_name(proof["file"]),
                f"<code>{shown_name(proof['sha256'], 80)}</code>",
                f"{proof['bytes']:,}",
                f"{proof['proved']:,}",
                f"{proof['unproved']:,}",
                shown_name(verdict.removesuffix(": "), 200),
            ]
        )
    header = ["Attacker", "file", "SHA-256", "bytes", "proved", "not proved", "checker"]
    caption = said("Proofs that were written, and what the checker said of them.")
    texts = frozenset({1, 2, 6})
    return opened(Table("proof-files", caption, header, rows, texts=texts, has_long_names=True))


def _facts(document: Mapping[str, Any]) -> str:
    model, data, settings = document["model"], document["data"], document["settings"]
    versions = document["versions"].items()
    facts: list[tuple[str, str]] = [
        ("Model", shown_name(model["name"], 200)),
        ("… SHA-256 of its content", _hash(model["sha256"])),
        ("… SHA-256 of its file", _hash(model.get("file_sha256"))),
        (
            "… size",
            said(
                f"{counted(int(model['trees']), 'tree')}, "
                f"{counted(int(model['leaves']), 'leaf', 'leaves')}, "
                f"{counted(int(model['features']), 'feature')}, "
                f"{counted(len(model['classes']), 'class', 'classes')}"
            ),
        ),
        ("Data", shown_name(data["name"], 200)),
        ("… SHA-256 of the judged rows", _hash(data["sha256"])),
        ("… SHA-256 of the file", _hash(data.get("file_sha256"))),
        ("… rows", said(f"{data['rows']:,}, of which {data['judged']:,} were judged")),
        ("… missing values", f"{data['missing']:,}"),
        *((f"Setting: {name}", _setting(name, value)) for name, value in settings.items()),
        *((f"Version: {name}", shown_name(value)) for name, value in versions if value),
    ]
    return opened(
        Table(
            "facts",
            said("What the report speaks of, and what made it."),
            ["What", "value"],
            [[said(name), value] for name, value in facts if value],
            numeric=2,
            has_long_names=True,
        )
    )


def _hash(value: str | None) -> str:
    return f"<code>{shown_name(value, 80)}</code>" if value else ""


def _setting(name: str, value: Any) -> str:
    if value is None:
        return said("none")
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = number(float(value), 17)
        return said(f"{text} s per row and question" if name == "timeout" else text)
    return shown_name(value)


def _times(document: Mapping[str, Any]) -> str:
    """A section of its own: the rest is the same for the same inputs."""
    times = document["times"]
    rows = [
        [
            said(f"verifying, {asked_title(Asked(document, place))}"),
            _seconds(_at(times.get("verify"), place)),
            _seconds(_at(times.get("slowest"), place)),
        ]
        for place in range(len(document["attackers"]))
    ]
    for place in range(len(document["distances"])):
        title = distance_title(Distance(document, place))
        for what, key in (("radii", "measure"), ("witnesses", "witnesses")):
            spent = _seconds(_at(times.get(key), place))
            rows.append([said(f"{what}: {title}"), spent, "–"])
    if times.get("retraining") is not None:
        rows.append([said("retraining"), _seconds(times["retraining"]), "–"])
    rows.append([said("all"), _seconds(times.get("seconds")), "–"])
    table = Table(
        "times-spent",
        said(
            f"Made {when(times.get('date'))}. Two reports of the same inputs differ in times only."
        ),
        ["Work", "seconds", "slowest row"],
        rows,
        has_long_names=True,
    )
    return f'<article data-time><h3 id="times">Times</h3>{opened(table)}</article>'


def _at(values: Any, place: int) -> Any:
    return values[place] if values is not None and place < len(values) else None


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value >= 0.01 else "&lt; 0.01"


def when(date: str | None) -> str:
    """A date as people write it; as it is given where it is no ISO date."""
    if not date:
        return "at an unknown time"
    try:
        at = datetime.fromisoformat(date.replace("Z", "+00:00"))
    except ValueError:
        return f"on {on_one_line(date)}"
    zone = " UTC" if at.utcoffset() is not None and not at.utcoffset() else ""
    return f"on {at.day} {at:%B %Y} at {at:%H:%M}{zone}"
