"""Format numbers, names, attackers and changes for the page.

Bounds are rounded outward, and two different numbers never look the same side by side. Names from
a model or data are shown on one line, with invisible characters spelled out. Functions that return
`Markup` return HTML; the page escapes all other text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from markupsafe import Markup

from carvegbm.attackers.options import OPTIONS
from carvegbm.storage import text
from carvegbm.storage.text import on_one_line

__all__ = [
    "attacker",
    "before_and_after",
    "budget_below",
    "change_size",
    "changes",
    "counted",
    "exactly",
    "largest_first",
    "limits",
    "name",
    "norm_measure",
    "number",
    "number_between",
    "number_pair",
    "percent",
    "percent_interval",
    "quoted",
    "short",
]

Document = Mapping[str, Any]

_LONGEST_NAME = 48
_LONGEST_TITLE = 1000
_DIGITS = 17  # enough to tell any two doubles apart
_ROUNDING = 1e-9
_ROUNDINGS = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "row"), counted(1200, "row"), counted(0, "class", "classes")
    ('1 row', '1,200 rows', '0 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(part: float, whole: float = 1) -> str:
    """A share in percent; the space before the sign does not break a line."""
    return text.percent(part, whole).replace(" %", "\u00a0%")


def percent_interval(lower: float, upper: float) -> str:
    """An interval of shares, rounded outward, or one share if both ends are equal."""
    return text.percent_interval(lower, upper).replace(" %", "\u00a0%")


def number(value: float, digits: int = 4, rounding: str = "nearest") -> str:
    """A number with `digits` significant digits, without trailing zeros.

    `rounding` is "down" for a lower bound and "up" for an upper bound.

    >>> number(1029.5), number(1029.5, 5), number(1e-35), number(-0.02), number(1234567.0, 7)
    ('1,030', '1,029.5', '1e−35', '−0.02', '1,234,567')
    >>> number(0.29999, 2, "down"), number(1e20), number(-0.0)
    ('0.29', '1e20', '0')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    rounded = _rounded(value, digits, rounding)
    if rounded == 0:
        return "0"
    size = rounded.adjusted()
    sign = "−" if rounded < 0 else ""
    plain = abs(rounded).normalize()
    if -5 < size < 15:
        return f"{sign}{plain:,f}"
    mantissa = plain.scaleb(-size).normalize()
    return f"{sign}{mantissa:f}e{str(size).replace('-', '−')}"


def _rounded(value: float, digits: int, rounding: str = "nearest") -> Decimal:
    # The shortest decimal stands for the double: 0.3 is three tenths.
    context = Context(prec=digits, rounding=_ROUNDINGS[rounding])
    return context.plus(Decimal(repr(float(value))))


def _parsed(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def number_between(value: float, end: float) -> str:
    """The shortest decimal d of six digits or more with value <= d < end."""
    for digits in range(6, _DIGITS):
        if _rounded(value, digits, "up") < Decimal(repr(float(end))):
            return number(value, digits, "up")
    return number(value, _DIGITS)


def number_pair(before: float, after: float) -> tuple[str, str]:
    """Two numbers with digits enough to tell them, and their distance, apart.

    >>> number_pair(1032, 1029.5), number_pair(0, 1.0000000180025095e-35)
    (('1,032', '1,029.5'), ('0', '1e−35'))
    >>> number_pair(0.1, 0.1 + 1e-9), number_pair(1 / 3, 2 / 3)
    (('0.1', '0.100000001'), ('0.33333', '0.66667'))
    """
    if before != after and math.isfinite(before) and math.isfinite(after):
        gap = abs(Decimal(repr(float(after))) - Decimal(repr(float(before))))
        for digits in range(5, _DIGITS + 1):
            shown = abs(_rounded(after, digits) - _rounded(before, digits))
            if shown != 0 and abs(shown - gap) <= gap / 50:
                return number(before, digits), number(after, digits)
    return number(before, _DIGITS), number(after, _DIGITS)


def exactly(value: float, text: str) -> Markup:
    """The text; its tooltip has all digits where the text has not.

    >>> exactly(0.5, "0.5"), exactly(1 / 3, "0.3333")
    (Markup('0.5'), Markup('<span title="0.3333333333333333">0.3333</span>'))
    """
    if not math.isfinite(value) or number(value, _DIGITS) == text:
        return Markup.escape(text)
    whole = repr(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
    return Markup('<span title="{}">{}</span>').format(whole, text)


def short(text: Any, longest: int = _LONGEST_NAME) -> str:
    """At most `longest` visible characters, the beginning and the end of the text.

    >>> short("x" * 30 + "17", 12)
    'xxxxxxxx…x17'
    """
    whole = on_one_line(text)
    if len(whole) <= longest:
        return whole
    tail = longest // 4
    return f"{whole[: longest - tail - 1]}…{whole[-tail:]}"


def name(text: Any, longest: int = _LONGEST_NAME) -> Markup:
    """A name, isolated from the direction of the text around it; a long one has a tooltip.

    >>> name("<b>")
    Markup('<bdi>&lt;b&gt;</bdi>')
    """
    whole, shown = on_one_line(text), short(text, longest)
    if not whole.strip():
        return Markup('<bdi class="quiet">(empty)</bdi>')
    if shown == whole:
        return Markup("<bdi>{}</bdi>").format(shown)
    return Markup('<bdi title="{}">{}</bdi>').format(whole[:_LONGEST_TITLE], shown)


def quoted(text: Any) -> Markup:
    """A label in quotes."""
    return Markup("“{}”").format(name(text))


# ── attackers and budgets ─────────────────────────────────────────────────────────────────────

_NORMS: dict[Any, tuple[str, str]] = {
    "inf": ("each feature by at most {}", "the largest change of a feature"),
    0: ("at most {} to any value", "the number of changed features"),
    1: ("features by at most {} in sum", "the sum of all changes"),
    2: ("features by at most {} in Euclidean length", "the Euclidean length of the change"),
}


def attacker(given: Document) -> str:
    """What an attacker may change; continues "an attacker who changes".

    >>> attacker({"norm": "inf", "budget": 0.02})
    'each feature by at most 0.02'
    >>> attacker({"norm": 0, "budget": 1})
    'at most 1 feature to any value'
    """
    norm, budget = given["norm"], float(given["budget"])
    if norm == 0:
        return _NORMS[0][0].format(counted(int(budget), "feature"))
    unknown = f"features by at most {{}} in norm {norm}", ""
    return _NORMS.get(norm, unknown)[0].format(number(budget, 17))


def norm_measure(norm: Any) -> str:
    """What a budget of this norm measures."""
    return _NORMS.get(norm, ("", f"the length of the change in norm {norm}"))[1]


def limits(entry: Document, n_features: int) -> list[Markup]:
    """The limits of an attacker besides norm and budget, as the user gave them."""
    given = {option: entry["attacker"].get(option) for option in OPTIONS}
    if entry["changeable"] == n_features:  # a list of all features is no limit
        given["features"] = None
    return [
        Markup("{}: {}").format(option.replace("_", "-"), name(json.dumps(value), 120))
        for option, value in given.items()
        if value is not None
    ]


def budget_below(bound: float | None) -> Markup:
    """A budget below which rows stay robust: rounded down, unless it is a rounding below a number.

    0.47 - 0.45 is a double just below 0.02, and 0.02 is what people call it.
    """
    if bound is None:
        return Markup("∞")
    near = number(bound, 6)
    if bound < _parsed(near) <= bound * (1 + _ROUNDING):
        return exactly(bound, f"{near} (up to a rounding)")
    return exactly(bound, number(bound, 6, "down"))


# ── changes ───────────────────────────────────────────────────────────────────────────────────


def _size(change: Document) -> float:
    """after - before in decimal, so that 0.3 - 0.1 is 0.2; infinite unless both are numbers."""
    ends = change["before"], change["after"]
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends):
        return math.inf
    before, after = (Decimal(repr(float(end))) for end in ends)
    return float(after - before)


def largest_first(changes: Sequence[Document]) -> list[Document]:
    """Changes by size; categories come first."""
    return sorted(changes, key=lambda change: (-abs(_size(change)), change["feature"]))


def before_and_after(change: Document) -> tuple[Markup, Markup]:
    """Both values, never rounded until they look alike or equal to the threshold between them."""
    before, after = change["before"], change["after"]
    if math.isinf(_size(change)):
        missing = Markup('<span class="quiet">missing</span>')
        return (
            missing if before is None else name(before),
            missing if after is None else name(after),
        )
    first, second = number_pair(before, after)
    if after > before and _parsed(second) < after:
        # A value just above a threshold must not look like the threshold.
        second = f"{second}…" if after > 0 else number(after, _DIGITS)
    return exactly(before, first), exactly(after, second)


def change_size(change: Document) -> Markup:
    """By how much a number changes, with its sign."""
    size = _size(change)
    if math.isinf(size):
        return Markup("–")
    return exactly(size, ("+" if size > 0 else "") + number(size, 5))


def changes(witness: Document, most: int = 3) -> Markup:
    """The largest changes of a witness, and how many more there are."""
    ordered = largest_first(witness["changes"])
    arrow = Markup('<span class="change">{} {} → {}</span>')
    found = [arrow.format(name(one["name"]), *before_and_after(one)) for one in ordered[:most]]
    more = [f"{len(ordered) - most:,} more"] * (len(ordered) > most)
    return Markup(", ").join([*found, *more]) or Markup("no change")
