"""An explanation as text: blocks of a title, a table and notes.

Control characters in names from models and data are shown as escapes.
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
    from carvegbm.explanation.result import ChangedFeature, CrossedSplit, Explanation

__all__ = ["TREES", "Block", "as_text", "blocks_of", "in_short", "number_pair"]

TREES = 20
"""Default number of trees shown one by one."""
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


def as_text(found: Explanation) -> str:
    """The whole explanation as plain text."""
    return "\n\n".join("\n".join(block.lines()) for block in blocks_of(found))


def in_short(found: Explanation) -> str:
    """The explanation in one line."""
    radius = f"radius {found.radius:.6g}" if found.is_exact else "radius unknown"
    parts = [f"row {found.row}", "right" if found.right else "wrong", radius]
    parts += [] if found.status is None else [found.status]
    if found.witness is not None:
        parts.append(f"{len(found.changes)} change{'s' * (len(found.changes) != 1)}")
    return ", ".join(parts)


def blocks_of(found: Explanation, where: str = "", trees: int = TREES) -> list[Block]:
    """The blocks; `where` follows the row's number, and `trees` are shown one by one."""
    blocks = [_row(found, where)]
    if found.witness is not None:
        blocks += [_changes(found), _trees(found, trees)]
    return [
        Block(
            on_one_line(title),
            [tuple(map(on_one_line, row)) for row in rows],
            align,
            [on_one_line(note) for note in notes],
        )
        for title, rows, align, notes in blocks
    ]


def _row(found: Explanation, where: str) -> Block:
    right = "right" if found.right else "wrong"
    rows: list[tuple[str, ...]] = [
        ("label", f"{found.label}" + ", the model's own answer: none was given" * found.is_own),
        ("answer", f"{found.answer}: {right}"),
        ("margin", f"{found.margin:.6g}"),
    ]
    if len(found.scores) > 1:
        pairs = zip(found.classes, found.scores, strict=True)
        best = sorted(pairs, key=lambda pair: -pair[1])[:3]
        shown = ", ".join(f"{name}: {score:.6g}" for name, score in best)
        rows.append(("scores", shown + ", …" * (len(found.scores) > 3)))
    rows.append(("radius", _radius(found)))
    if found.status is not None:
        rows.append(("status", f"{found.status}: {MEANINGS[found.status]}"))
        rows.append(("", f"against {found.attacker}"))
    is_missing = found.witness is None and found.upper > 0 and math.isfinite(found.upper)
    return Block(
        f"row {found.row}{where}", rows, "<<", ["no witness was found in time"] * is_missing
    )


def _radius(found: Explanation) -> str:
    norm = f"norm {found.attacker.norm}"
    if math.isinf(found.lower):
        return f"infinite, {norm}: no budget flips the answer"
    if found.is_exact:
        return f"{found.radius:.6g}, {norm}"
    ends = ((found.lower, ROUND_FLOOR), (found.upper, ROUND_CEILING))
    lower, upper = (  # rounded outward
        f"{float(Context(prec=6, rounding=rounding).create_decimal(end)):.6g}"
        for end, rounding in ends
    )
    return f"between {lower} and {upper}, {norm}: time ran out"


def _changes(found: Explanation) -> Block:
    count = len(found.changes)
    title = (
        f"{'nearest ' * (found.distance == found.radius)}witness: answer {found.witness_answer}, "
        f"distance {found.distance:.6g}, {count} change{'s' * (count != 1)}"
    )
    rows: list[tuple[str, ...]] = [("feature", "before", "after", "change", "crosses")]
    rows += [_change(change) for change in found.changes]
    alone = ", ".join(change.name for change in found.changes if change.alone) or "none"
    notes = [
        f"undo any one change, and the answer is {found.label} again",
        f"enough alone, without the others: {alone}",
    ]
    if found.witness_margin == 0:
        notes.append(f"the witness is at a tie, which {found.witness_answer} wins")
    if found.borderline:
        notes.append("borderline: the exact sum flips, by less than the model's own library rounds")
    return Block(title, rows, "<>>><", notes)


def _change(change: ChangedFeature) -> tuple[str, ...]:
    if change.kind != "number":
        before, after = (
            "unknown category" if value is None else str(value)
            for value in (change.before, change.after)
        )
        return change.name, before, after, "", ""
    before, after = number_pair(change.before, change.after)
    if any(t < change.after and float(after) <= float(f"{t:.6g}") for t in change.thresholds):
        # A value just above a threshold must not look like the threshold.
        after = f"{after}…" if change.after > 0 else repr(change.after)
    by = float(Fraction(change.after) - Fraction(change.before))
    sign = ">" if change.after > change.before else "≤"
    crossed = [f"{sign} {t:.6g}" for t in change.thresholds]
    if len(crossed) > _THRESHOLDS:
        crossed = [crossed[0], "…", f"{crossed[-1]} ({len(crossed)} thresholds)"]
    return change.name, before, after, f"{by:+.6g}", ", ".join(crossed)


def _trees(found: Explanation, most: int) -> Block:
    changed, total = len(found.trees), len(found.trees) + found.unchanged_trees
    title = f"leaves: {changed} of {total} tree{'s' * (total != 1)} with another one"
    if found.rival is not None:
        title += f"; scores of {found.label} less those of {found.rival}"
    rows: list[tuple[str, ...]] = [("tree", "before", "after", "margin", "crosses")]
    for tree in found.trees[:most]:
        before, after = number_pair(_leaf(tree.before), _leaf(tree.after))
        splits = [_split(split) for split in tree.crossed[:_SPLITS]]
        splits += ["…"] * (len(tree.crossed) > _SPLITS)
        loss = _signed(-tree.contribution)
        rows.append((str(tree.tree), before, after, loss, ", ".join(splits)))
    if rest := found.trees[most:]:
        loss = _signed(-sum((tree.contribution for tree in rest), Fraction(0)))
        rows.append((_others(len(rest)), "", "", loss, "together"))
    if found.unchanged_trees:
        rows.append((_others(found.unchanged_trees), "", "", "0", "no other leaf than before"))
    if found.lead:
        ahead = f"{found.first_rival} was ahead of it before"
        rows.append(("", "", "", _signed(found.lead), ahead))
    taken = found.lead - sum((tree.contribution for tree in found.trees), Fraction(0))
    ends = f"from {found.margin:.6g} to {found.witness_margin:.6g}"
    rows.append(("all", "", "", _signed(taken), ends))
    return Block(title, rows, ">>>><", [])


def _others(count: int) -> str:
    return f"{count} other{'s' * (count != 1)}"


def _leaf(scores: tuple[float, ...]) -> float:
    """The score of a leaf; with many classes, the label's less the rival's."""
    return scores[0] if len(scores) == 1 else float(Fraction(scores[0]) - Fraction(scores[1]))


def _split(split: CrossedSplit) -> str:
    is_left = split.side == "left"
    if split.categories is None:
        return f"{split.feature} {'≤' if is_left else '>'} {split.threshold:.6g}"
    shown = ", ".join(map(str, split.categories[:_CATEGORIES]))
    more = ", …" * (len(split.categories) > _CATEGORIES)
    return f"{split.feature} {'in' if is_left else 'not in'} {{{shown}{more}}}"


def number_pair(one: float, other: float) -> tuple[str, str]:
    """Two numbers with six digits, or with as many more as tell them apart.

    Examples
    --------
    >>> number_pair(1.5, 2.25), number_pair(1032.0, 1031.9996)
    (('1.5', '2.25'), ('1032', '1031.9996'))
    >>> number_pair(0.5, 0.5000000000000001)
    ('0.5', '0.5000000000000001')
    """
    for digits in range(6, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _signed(value: Fraction) -> str:
    return f"{float(value):+.6g}" if value else "0"
