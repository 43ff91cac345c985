"""An explanation in words and tables.

Comes in: an `Explanation`. Goes out: blocks of a title, a table and notes, for a terminal or as one
text. Names come from strangers' files: what could steer a terminal is shown as its escape.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from carvegbm.statuses import MEANINGS
from carvegbm.storage.text import on_one_line
from carvegbm.tables import text_table

if TYPE_CHECKING:
    from carvegbm.explanation.result import ChangedFeature, ChangedTree, CrossedSplit, Explanation

__all__ = ["TREES", "Block", "as_text", "blocks_of", "in_short", "told_apart"]

TREES = 20
"""Trees that are shown one by one, unless more are asked for."""
_CATEGORIES = 4
_THRESHOLDS = 3
_SPLITS = 3


class Block(NamedTuple):
    """A table with a title above it and notes below."""

    title: str
    rows: list[tuple[str, ...]]
    align: str
    """"<" or ">" per column"""
    notes: list[str]

    def lines(self) -> list[str]:
        """The block as plain text."""
        table = text_table(self.rows, self.align, indent="  ")
        return [self.title, *table, *(f"  {note}" for note in self.notes)]


def as_text(told: Explanation) -> str:
    """The whole explanation as plain text."""
    return "\n\n".join("\n".join(block.lines()) for block in blocks_of(told))


def in_short(told: Explanation) -> str:
    """The explanation in one line."""
    bounds = "radius unknown" if not told.is_exact else f"radius {_number(told.radius)}"
    parts = [f"row {told.row}", "right" if told.right else "wrong", bounds]
    parts += [] if told.status is None else [told.status]
    if told.witness is not None:
        parts.append(f"{len(told.changes)} change{'s' * (len(told.changes) != 1)}")
    return ", ".join(parts)


def blocks_of(told: Explanation, where: str = "", trees: int = TREES) -> list[Block]:
    """What is to be shown; `where` is said of the row, and so many `trees` are shown one by one."""
    blocks = [_verdict(told, where)]
    if told.witness is not None:
        blocks += [_changes(told), _trees(told, trees)]
    return [
        Block(
            on_one_line(title),
            [tuple(map(on_one_line, row)) for row in rows],
            align,
            [on_one_line(note) for note in notes],
        )
        for title, rows, align, notes in blocks
    ]


# ── the instance ─────────────────────────────────────────────────────────────────────────────


def _verdict(told: Explanation, where: str) -> Block:
    right = "right" if told.right else "wrong"
    rows: list[tuple[str, ...]] = [
        ("label", f"{told.label}" + ", the model's own answer: none was given" * told.is_own),
        ("answer", f"{told.answer}: {right}"),
        ("margin", _number(told.margin)),
    ]
    if len(told.scores) > 1:
        pairs = zip(told.classes, told.scores, strict=True)
        best = sorted(pairs, key=lambda pair: -pair[1])[:3]
        shown = ", ".join(f"{name}: {_number(score)}" for name, score in best)
        rows.append(("scores", shown + ", …" * (len(told.scores) > 3)))
    rows.append(("radius", _radius(told)))
    if told.status is not None:
        rows.append(("status", f"{told.status}: {MEANINGS[told.status]}"))
        rows.append(("", f"against {told.attacker}"))
    notes = []
    if told.witness is None and told.upper > 0 and math.isfinite(told.upper):
        notes.append("no witness was found in time")
    return Block(f"row {told.row}{where}", rows, "<<", notes)


def _radius(told: Explanation) -> str:
    if not told.right:
        return "0: the answer is wrong without an attack"
    norm = f"norm {told.attacker.norm}"
    if math.isinf(told.lower):
        return f"infinite, {norm}: no budget flips the answer"
    if told.is_exact:
        return f"{_number(told.radius)}, {norm}"
    if math.isinf(told.upper):
        return f"≥ {_bound(told.lower, ROUND_FLOOR)}, {norm}: time ran out"
    lower, upper = _bound(told.lower, ROUND_FLOOR), _bound(told.upper, ROUND_CEILING)
    return f"between {lower} and {upper}, {norm}: time ran out"


# ── the witness ──────────────────────────────────────────────────────────────────────────────


def _changes(told: Explanation) -> Block:
    count = len(told.changes)
    nearest = "nearest witness" if told.distance == told.radius else "witness"
    title = (
        f"{nearest}: answer {told.witness_answer}, distance {_number(told.distance)}, "
        f"{count} change{'s' * (count != 1)}"
    )
    rows: list[tuple[str, ...]] = [("feature", "before", "after", "change", "crosses")]
    rows += [_change(change) for change in told.changes]
    notes = []
    if count == 1:
        notes.append("this change alone is enough")
    elif count > 1:
        alone = [change.name for change in told.changes if change.alone]
        again = f"take one back, and the answer is {told.label} again"
        notes.append(f"each of the {count} changes is needed: {again}")
        if alone:
            notes.append(f"alone, without all others, enough would be: {', '.join(alone)}")
    if told.witness_margin == 0:
        notes.append(f"the witness is at a tie, which {told.witness_answer} wins")
    if told.borderline:
        notes.append("borderline: the exact sum flips, by less than the model's own library rounds")
    return Block(title, rows, "<>>><", notes)


def _change(change: ChangedFeature) -> tuple[str, ...]:
    if change.kind != "number":
        before, after = (
            "unknown category" if value is None else str(value)
            for value in (change.before, change.after)
        )
        return change.name, before, after, "", ""
    before, after = told_apart(change.before, change.after)
    if any(t < change.after and float(after) <= float(_number(t)) for t in change.thresholds):
        # Rounded to the threshold that it is just above; more digits take a negative number down.
        after = f"{after}…" if change.after > 0 else repr(change.after)
    by = float(Fraction(change.after) - Fraction(change.before))
    return change.name, before, after, f"{by:+.6g}", _crossed(change)


def _crossed(change: ChangedFeature) -> str:
    sign = ">" if change.after > change.before else "≤"
    shown = [f"{sign} {_number(t)}" for t in change.thresholds]
    if len(shown) <= _THRESHOLDS:
        return ", ".join(shown)
    return f"{shown[0]}, …, {shown[-1]} ({len(shown)} thresholds)"


# ── the trees ────────────────────────────────────────────────────────────────────────────────


def _trees(told: Explanation, most: int) -> Block:
    changed, total = len(told.trees), len(told.trees) + told.unchanged_trees
    title = f"leaves: {changed} of {total} tree{'s' * (total != 1)} with another one"
    if told.rival is not None:
        title += f"; scores of {told.label} less those of {told.rival}"
    rows: list[tuple[str, ...]] = [("tree", "before", "after", "margin", "crosses")]
    for tree in told.trees[:most]:
        before, after = told_apart(_leaf(tree.before), _leaf(tree.after))
        loss = _signed(-tree.contribution)
        rows.append((str(tree.tree), before, after, loss, _way(tree)))
    if rest := told.trees[most:]:
        loss = _signed(-sum((tree.contribution for tree in rest), Fraction(0)))
        rows.append((_others(len(rest)), "", "", loss, "together"))
    if told.unchanged_trees:
        rows.append((_others(told.unchanged_trees), "", "", "0", "no other leaf than before"))
    if told.lead:
        rows.append(("", "", "", _signed(told.lead), f"{told.first_rival} was ahead of it before"))
    taken = told.lead - sum((tree.contribution for tree in told.trees), Fraction(0))
    before, after = _number(told.margin), _number(told.witness_margin)
    rows.append(("all", "", "", _signed(taken), f"from {before} to {after}"))
    return Block(title, rows, ">>>><", [])


def _others(count: int) -> str:
    return f"{count} other{'s' * (count != 1)}"


def _leaf(scores: tuple[float, ...]) -> float:
    """The score; of many classes, that for the label less that for the rival."""
    return scores[0] if len(scores) == 1 else float(Fraction(scores[0]) - Fraction(scores[1]))


def _way(tree: ChangedTree) -> str:
    shown = [_split(split) for split in tree.crossed[:_SPLITS]]
    return ", ".join(shown) + ", …" * (len(tree.crossed) > _SPLITS)


def _split(split: CrossedSplit) -> str:
    is_left = split.side == "left"
    if split.categories is None:
        assert split.threshold is not None
        return f"{split.feature} {'≤' if is_left else '>'} {_number(split.threshold)}"
    shown = ", ".join(map(str, split.categories[:_CATEGORIES]))
    more = ", …" * (len(split.categories) > _CATEGORIES)
    return f"{split.feature} {'in' if is_left else 'not in'} {{{shown}{more}}}"


# ── numbers and names ────────────────────────────────────────────────────────────────────────


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with six digits, or with as many more as it takes to tell them apart.

    Examples
    --------
    >>> told_apart(1.5, 2.25), told_apart(1032.0, 1031.9996)
    (('1.5', '2.25'), ('1032', '1031.9996'))
    >>> told_apart(0.5, 0.5000000000000001)
    ('0.5', '0.5000000000000001')
    """
    for digits in range(6, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _number(value: float) -> str:
    return f"{value:.6g}"


def _signed(value: Fraction) -> str:
    return f"{float(value):+.6g}" if value else "0"


def _bound(value: float, rounding: str) -> str:
    """Six digits, rounded the way that keeps a bound a bound."""
    return f"{float(Context(prec=6, rounding=rounding).create_decimal(value)):.6g}"
