"""Proofs made by hand: a writer of the format, and a slow prover that needs no multipliers.

Comes in: an ensemble, rows, and an attacker as the oracle knows it. Goes out: the bytes of a proof
file, by docs/proofs.md and nothing else; neither the package's prover nor the checker is asked.

The prover cuts until a case is empty, or its bound without multipliers closes it: at the latest
where every axis has one cell left. What is true has such a proof; of what is not, `NoProofError`.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import oracle
from oracle import Attacker, Tree

STATUSES = ("robust", "fragile", "vulnerable", "broken")
NOTHING = bytes([0, 0, 0, 0])  # a bound without multipliers


class NoProofError(Exception):
    """What is to be proved is false."""


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def varint(number: int) -> bytes:
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def signed(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)


def model_content(ensemble: Any) -> str:
    """SHA-256 of the ensemble's own arrays."""
    head = struct.pack("<III", ensemble.n_features, ensemble.n_outputs, ensemble.average)
    head += struct.pack("<d", ensemble.threshold) + ensemble.base_score.astype("<f8").tobytes()
    head += b"+" if ensemble.tie == "positive" else b"-"
    head += b"f" if ensemble.input_precision == "float32" else b"d"
    parts = [head]
    sides = {1: b"L", 0: b"R", -1: b"-"}
    starts, codes = ensemble.set_starts.tolist(), ensemble.set_codes
    stack = ensemble.roots.tolist()[::-1]
    while stack:
        threshold, feature, left, right, missing = ensemble.nodes[stack.pop()].tolist()
        if feature < 0:
            parts.append(b"V" + ensemble.scores[left].astype("<f8").tobytes())
            continue
        if feature in ensemble.categories:
            listed = codes[starts[int(threshold)] : starts[int(threshold) + 1]]
            cut = struct.pack("<cII", b"C", feature, len(listed)) + listed.astype("<u4").tobytes()
        else:
            cut = struct.pack("<cId", b"N", feature, threshold)
        parts.append(cut + sides[missing])
        stack += [right, left]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def data_content(rows: Iterable[Sequence[float]], labels: Iterable[int]) -> str:
    parts = []
    for row, label in zip(rows, labels, strict=True):
        for value in row:
            missing = value != value
            parts.append(struct.pack("<Q", 0x7FF8 << 48) if missing else struct.pack("<d", value))
        parts.append(struct.pack("<I", label))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def attacker_fields(ensemble: Any, attacker: Attacker) -> dict[str, Any]:
    """The attacker as the header has it."""

    def by_feature(values: Sequence[float]) -> dict[str, str]:
        return {str(f): float(v).hex() for f, v in enumerate(values) if math.isfinite(v)}

    norm = "inf" if attacker.norm == math.inf else int(attacker.norm)
    fields: dict[str, Any] = {"norm": norm, "budget": float(attacker.budget).hex()}
    if attacker.features is not None:
        fields["features"] = list(attacker.features)
    if attacker.scale is not None:
        pairs = [s if isinstance(s, tuple) else (s, s) for s in attacker.scale]
        fields |= {
            "down": by_feature([s for s, _ in pairs]),
            "up": by_feature([s for _, s in pairs]),
        }
    if attacker.bounds is not None:
        lower, upper = (list(ends) for ends in attacker.bounds)
        for feature in ensemble.categories:
            lower[feature], upper[feature] = -math.inf, math.inf
        fields |= {"lower": by_feature(lower), "upper": by_feature(upper)}
    if attacker.step:
        steps = attacker.step.items()
        fields["step"] = {str(f): f"{s.numerator}/{s.denominator}" for f, s in steps}
    if ensemble.categories:
        allowed = attacker.categories or {}
        fields["categories"] = {
            str(f): sorted(allowed.get(f, known)) for f, known in ensemble.categories.items()
        }
    if attacker.one_hot:
        fields["one_hot"] = [list(group) for group in attacker.one_hot]
    return fields


def header(
    ensemble: Any, rows: Sequence[Sequence[float]], labels: Sequence[int], attacker: Attacker
) -> dict[str, Any]:
    return {
        "model": model_content(ensemble),
        "data": data_content(rows, labels),
        "attacker": attacker_fields(ensemble, attacker),
        "labels": "given",
        "rows": len(rows),
        "written_by": "by hand",
    }


def file_of(head: dict[str, Any], records: Sequence[bytes], count: int | None = None) -> bytes:
    """The bytes of a file with these records, every third one in a block of its own."""
    text = json.dumps(head).encode()
    data = b"carvegbm proof 1\n" + struct.pack("<I", len(text)) + text
    for start in range(0, len(records), 3):
        some = (varint(len(one)) + one for one in records[start : start + 3])
        packed = zlib.compress(b"".join(some), 0)
        data += struct.pack("<II", len(packed), zlib.crc32(packed)) + packed
    data += struct.pack("<IQ", 0, len(records) if count is None else count)
    return data + hashlib.sha256(data).digest()


def record(
    row: int,
    status: str,
    rest: bytes,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
) -> bytes:
    """A record; with `bounds`, those of the row are given for every feature."""
    limits = b""
    if bounds is not None:
        pairs = list(zip(*bounds, strict=True))
        given = (varint(f) + struct.pack("<dd", *pair) for f, pair in enumerate(pairs))
        limits = varint(len(pairs)) + b"".join(given)
    return varint(row) + bytes([STATUSES.index(status)]) + limits + rest


def witness(changes: dict[int, float]) -> bytes:
    """What follows in a record of a fragile or broken row."""
    pairs = (varint(f) + struct.pack("<d", value) for f, value in changes.items())
    return varint(len(changes)) + b"".join(pairs)


def parts(*given: tuple[dict[int, int], bytes]) -> bytes:
    """What follows in a record of another row: weights by class, and the bytes of a case."""
    return varint(len(given)) + b"".join(weights_of(weights) + case for weights, case in given)


def weights_of(weights: dict[int, int]) -> bytes:
    pairs = (varint(rival) + varint(weight) for rival, weight in weights.items())
    return varint(len(weights)) + b"".join(pairs)


def bound(
    shift: int, price: int, theta: dict[tuple[int, int], list[tuple[int, int]]] | None = None
) -> bytes:
    """A case that a bound closes; θ by (tree, axis)."""
    axes = sorted({axis for _, axis in theta or {}})
    found = b"\0" + signed(shift) + varint(price) + varint(len(axes))
    for last, axis in zip([0, *axes], axes, strict=False):
        trees = sorted(tree for tree, other in theta or {} if other == axis)
        found += varint(axis - last) + varint(len(trees))
        for before, tree in zip([0, *trees], trees, strict=False):
            pairs = (theta or {})[tree, axis]
            found += varint(tree - before) + varint(len(pairs))
            found += b"".join(varint(cell) + signed(value) for cell, value in pairs)
    return found


def cut_below(feature: int, cell: int, low: bytes, high: bytes) -> bytes:
    return b"\1" + varint(feature) + varint(cell) + low + high


def cut_states(axis: int, states: Sequence[int], these: bytes, others: bytes) -> bytes:
    listed = b"".join(map(varint, states))
    return b"\2" + varint(axis) + varint(len(states)) + listed + these + others


# ── the slow prover ──────────────────────────────────────────────────────────────────────────


class Cell(NamedTuple):
    """A cell of an axis: its name, what it costs, and what is in it, by feature."""

    name: int
    cost: Fraction
    values: dict[int, Any]


class Axis(NamedTuple):
    number: int
    is_numeric: bool
    cells: list[Cell]


def axes_of(ensemble: Any, x: Sequence[Any], attacker: Attacker) -> list[Axis]:
    """The axes with their open cells, by the oracle's moves."""
    groups = [tuple(group) for group in attacker.one_hot or ()]
    found = []
    for part in oracle.parts_of(ensemble.n_features, attacker):
        here = tuple(x[feature] for feature in part)
        number, is_numeric = part[0], False
        if part in groups:
            number = ensemble.n_features + groups.index(part)
            values = [here, *oracle.one_hot_states(attacker, part)]
            names = [state.index(1) for state in values]
        elif part[0] in ensemble.categories:
            codes = (attacker.categories or {}).get(part[0], tuple(ensemble.categories[part[0]]))
            values = [here, *((float(oracle.value_of(ensemble, part[0], c)),) for c in codes)]
            codes_of = [oracle.code_of(ensemble, part[0], value) for (value,) in values]
            names = [int(code) if code == code else 0 for code in codes_of]
        else:
            is_numeric = True
            cuts = sorted({cut for tree in ensemble.to_trees() for cut in _cuts(tree, part[0])})
            values = [value for value, _ in oracle.moves(ensemble, x, attacker, part)]
            seen = [oracle.routed(value, ensemble.input_precision) for (value,) in values]
            names = [bisect_left(cuts, v) if v == v else 0 for v in seen]
        cells: dict[int, Cell] = {}
        for name, there in zip(names, values, strict=True):
            if not oracle.may_become(ensemble, attacker, part, here, there):
                continue
            price = oracle.price(attacker, part, here, there, ensemble)
            cost = oracle.added(Fraction(0), price, attacker.norm)
            if oracle.affords(attacker.budget, cost, attacker.norm) and name not in cells:
                cost = Fraction(0) if attacker.norm == math.inf else cost
                cells[name] = Cell(name, cost, dict(zip(part, there, strict=True)))
        found.append(Axis(number, is_numeric, sorted(cells.values())))
    return found


def _cuts(tree: Tree, feature: int) -> list[float]:
    return [split["threshold"] for split in oracle.splits(tree, feature)]


class Prover:
    """Proves that no z in reach wins, where total = constant + the sum of the trees' values."""

    def __init__(self, ensemble: Any, x: Sequence[Any], attacker: Attacker) -> None:
        self.ensemble, self.attacker = ensemble, attacker
        self.trees = oracle.in_units(ensemble)  # the base score is the first
        self.axes = axes_of(ensemble, x, attacker)
        power = 1 if attacker.norm in (0, math.inf) else int(attacker.norm)
        self.capacity = Fraction(attacker.budget) ** power
        self.cases = 0

    def case(
        self, value: Any, zero_wins: bool, *, to_the_end: bool = False, most_cases: int = 1 << 20
    ) -> bytes:
        """The bytes of a case that no z of which wins; `value` makes a number of a leaf's scores.

        To the end: cuts until every axis has one cell, even where the bound would do before, or
        until there are `most_cases`.
        """
        stack: list[Any] = [[axis.cells for axis in self.axes]]
        done: list[bytes] = []
        while stack:
            task = stack.pop()
            if isinstance(task, bytes):
                done.append(task)
                continue
            self.cases += 1
            spent = sum(min(cell.cost for cell in cells) for cells in task)
            open_axes = [i for i, cells in enumerate(task) if len(cells) > 1]
            total = sum(self.least(tree, task, value) for tree in self.trees)
            closed = total > 0 or (total == 0 and not zero_wins)
            is_empty = self.attacker.norm != math.inf and spent > self.capacity
            if is_empty or (closed and not (to_the_end and open_axes and self.cases < most_cases)):
                done.append(NOTHING)
            elif not open_axes:
                raise NoProofError
            else:
                i = max(open_axes, key=lambda i: len(task[i]))
                axis, cells = self.axes[i], task[i]
                middle = len(cells) // 2
                low, high = list(task), list(task)
                low[i], high[i] = cells[:middle], cells[middle:]
                if axis.is_numeric:
                    cut = b"\1" + varint(axis.number) + varint(cells[middle - 1].name)
                else:  # the state of x may have no number: it is among the others
                    named = [cell for cell in cells if cell.name >= 0][:middle]
                    low[i], high[i] = named, [cell for cell in cells if cell not in named]
                    listed = b"".join(varint(cell.name) for cell in named)
                    cut = b"\2" + varint(axis.number) + varint(len(named)) + listed
                done.append(cut)
                stack += [high, low]
        return b"".join(done)

    def least(self, tree: Tree, task: list[list[Cell]], value: Any) -> Any:
        """The least value of the leaves that some z of these cells reaches, one tree by itself."""
        if "score" in tree:
            return value(tree["score"])
        return min(
            self.least(tree[side], [*task[:i], cells, *task[i + 1 :]], value)
            for i, side, cells in self.sides(tree, task)
        )

    def sides(self, tree: Tree, task: list[list[Cell]]) -> list[tuple[int, str, list[Cell]]]:
        """The axis that a split asks for, and the cells that it sends to each side."""
        feature = tree["feature"]
        i = next(i for i, cells in enumerate(task) if feature in cells[0].values)
        found: dict[str, list[Cell]] = {"left": [], "right": []}
        for cell in task[i]:
            looked_at = oracle.seen(self.ensemble, feature, cell.values[feature])
            if math.isnan(looked_at):
                side = tree["missing"]
            else:
                side = "left" if oracle.goes_left(tree, looked_at) else "right"
            found[side].append(cell)
        return [(i, side, cells) for side, cells in found.items() if cells]


def proved(
    ensemble: Any, x: Sequence[Any], label: int, attacker: Attacker, **how: Any
) -> tuple[str, bytes]:
    """The status of a row, and what proves it."""
    status = oracle.status(ensemble, x, label, attacker)
    if status in ("fragile", "broken"):
        attack = oracle.witness(ensemble, x, label, attacker)
        assert attack is not None
        changes = {f: z for f, (z, old) in enumerate(zip(attack.z, x, strict=True)) if z != old}
        changes = {f: z for f, z in changes.items() if z == z}
        for feature in changes.keys() & ensemble.categories.keys():
            changes[feature] = float(oracle.code_of(ensemble, feature, changes[feature]))
        return status, witness(changes)
    prover = Prover(ensemble, x, attacker)
    threshold = int(Fraction(ensemble.threshold) * oracle.UNITS) * ensemble.average
    decision = oracle.decide(ensemble, oracle.raw_score(ensemble, x))
    if ensemble.task == "binary":
        sign = 1 if decision == 1 else -1
        prover.trees.append({"score": [-threshold]})
        zero_wins = (ensemble.tie == "positive") != (decision == 1)
        case = prover.case(lambda scores: sign * scores[0], zero_wins, **how)
        return status, parts(({}, case))
    rivals = [rival for rival in range(ensemble.n_outputs) if rival != label]
    if status == "robust":
        found = [
            ({r: 1}, prover.case(lambda s, r=r: s[label] - s[r], r < label, **how)) for r in rivals
        ]
        return status, parts(*found)
    return status, parts(vulnerable_part(prover, label, rivals))


def vulnerable_part(prover: Prover, label: int, rivals: list[int]) -> tuple[dict[int, int], bytes]:
    """One rival that is never beaten, or cuts, at the end of which each has its own rival."""
    for r in rivals:
        try:
            return {r: 1}, prover.case(lambda s, r=r: s[r] - s[label], label < r)
        except NoProofError:
            pass
    every = [axis.cells for axis in prover.axes]
    return {rivals[0]: 1}, _by_cells(prover, every, label, rivals)


def _by_cells(prover: Prover, task: list[list[Cell]], label: int, rivals: list[int]) -> bytes:
    spent = sum(min(cell.cost for cell in cells) for cells in task)
    if prover.attacker.norm != math.inf and spent > prover.capacity:
        return NOTHING
    for r in rivals:
        total = sum(prover.least(t, task, lambda s, r=r: s[r] - s[label]) for t in prover.trees)
        if total > 0 or (total == 0 and r < label):
            return b"\3" + weights_of({r: 1}) + NOTHING
    i = max(range(len(task)), key=lambda i: len(task[i]))
    axis, cells = prover.axes[i], task[i]
    if len(cells) == 1:
        raise NoProofError
    named = [cell for cell in cells if cell.name >= 0][: len(cells) // 2]
    others = [cell for cell in cells if cell not in named]
    low, high = (
        _by_cells(prover, [*task[:i], part, *task[i + 1 :]], label, rivals)
        for part in (named, others)
    )
    if axis.is_numeric:
        return cut_below(axis.number, named[-1].name, low, high)
    return cut_states(axis.number, [cell.name for cell in named], low, high)


# ── with multipliers ─────────────────────────────────────────────────────────────────────────


def price_bound(ensemble: Any, x: Sequence[Any], attacker: Attacker, decision: int) -> bytes:
    """A case for a large-spread ensemble of two classes: one price, and no multipliers.

    Every axis belongs to one tree, so θ is the price of its cells. The price is the one of a few
    that gives the best bound, each found by looking at every leaf.
    """
    prover = Prover(ensemble, x, attacker)
    sign = 1 if decision == 1 else -1
    worth = sum(max(abs(score) for score in _scores(tree)) for tree in prover.trees)
    every = [axis.cells for axis in prover.axes]

    def quality(price: int) -> int:
        total = -price
        for tree in prover.trees:
            total += min(
                sign * scores[0] + sum(price * cost // prover.capacity for cost in costs)
                for scores, costs in _priced(prover, tree, every)
            )
        return total

    return bound(1074, max((worth * part // 16 for part in range(65)), key=quality))


def _scores(tree: Tree) -> list[int]:
    if "score" in tree:
        return list(tree["score"])
    return [*_scores(tree["left"]), *_scores(tree["right"])]


def _priced(
    prover: Prover, tree: Tree, task: list[list[Cell]]
) -> list[tuple[list[int], list[Fraction]]]:
    """The scores of every leaf in reach, with the least cost of the cells of every axis there."""
    if "score" in tree:
        return [(tree["score"], [min(cell.cost for cell in cells) for cells in task])]
    found = []
    for i, side, cells in prover.sides(tree, task):
        found += _priced(prover, tree[side], [*task[:i], cells, *task[i + 1 :]])
    return found


def forced(ensemble: Any, x: Sequence[Any], attacker: Attacker) -> bytes:
    """Cuts down to single cells, all of them said to be closed: what is false looks like this."""
    prover = Prover(ensemble, x, attacker)
    return prover.case(lambda _: 1, False, to_the_end=True, most_cases=4000)
