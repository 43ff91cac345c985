"""Draw the figure of the README: what `carvegbm demo` finds.

    python tools/readme_figure.py [FILE.svg]

computes the demo (less than a minute) and writes docs/figures/demo.svg. The figure brings its own
background and follows the reader's light or dark mode, so that it is legible on any page. The same
version of LightGBM gives the same bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from carvegbm.cli.demo import (
    ATTACKERS,
    KINDS,
    Comparison,
    Floats,
    Witness,
    compare,
    name_of,
)

FILE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "demo.svg"
WIDTH, HEIGHT = 860, 372
CELL = 17  # pixels of the figure for one of the image
TOP = 96  # where images and rows begin
LEFT, RIGHT = 576, 796  # 0 % and 100 %
ROW = 38

STYLE = """
  svg { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
  .page { fill: #ffffff; stroke: #d0d7de; }
  text { fill: #1f2328; font-size: 13px; }
  .head { font-size: 14px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .line { stroke: #d1d9e0; }
  .paper { fill: #f6f8fa; stroke: #d1d9e0; }
  .ink { fill: #1f2328; }
  .changed { fill: none; stroke: #cf222e; stroke-width: 2.5; }
  .plain { fill: #818b98; }
  .certified { fill: #ffffff; stroke: #9a6700; stroke-width: 2; }
  .robust { fill: #1a7f37; }
  text.robust { font-weight: 600; }
  .bad { fill: #cf222e; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d; }
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .line { stroke: #3d444d; }
    .paper { fill: #151b23; stroke: #3d444d; }
    .ink { fill: #f0f6fc; }
    .changed { stroke: #f85149; }
    .plain { fill: #9198a1; }
    .certified { fill: #0d1117; stroke: #d29922; }
    .robust { fill: #3fb950; }
    .bad { fill: #f85149; }
  }
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figure of the README.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE)
    given = parser.parse_args()
    given.file.write_text(svg(compare()), "utf-8")


def svg(found: Comparison) -> str:
    assert found.witness is not None, "the demo found no image that one pixel flips"
    says = (
        f"Left: {describe(found.witness)}. Right: proven robustness of plain, certified and "
        "robust models against six attackers."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{says}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        *witness(found.witness),
        *robustness(found),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def describe(witness: Witness) -> str:
    return (
        f"an image of the digit {witness.label} that one changed pixel turns into "
        f"{witness.answer} for plain LightGBM"
    )


def witness(found: Witness) -> Iterator[str]:
    """The image before and after, and what both models say of it."""
    yield text(24, 36, "One pixel", "head")
    yield text(24, 56, "a test image as it is, and with one pixel changed", "quiet")
    side = 8 * CELL
    for x, pixels in ((24, found.image), (24 + side + 28, found.attacked)):
        yield from image(x, pixels, found.image != found.attacked)
    left, right = 24 + side / 2, 24 + side + 28 + side / 2
    y = TOP + side + 30
    yield text(left, y, f"plain LightGBM: {found.label}", "", "middle")
    yield text(right, y, f"plain LightGBM: {found.answer}", "bad", "middle")
    yield text(left, y + 30, f"robust: {found.label}", "", "middle")
    yield text(right, y + 30, f"robust: {found.label}", "robust", "middle")
    proven = f"proven: it says {found.label} whichever pixel is changed"
    yield text((left + right) / 2, y + 56, proven, "quiet", "middle")


def image(x: float, pixels: Floats, changed: Floats) -> Iterator[str]:
    side = 8 * CELL
    yield f'<rect class="paper" x="{x}" y="{TOP}" width="{side}" height="{side}"/>'
    places = [(x + CELL * (i % 8), TOP + CELL * (i // 8)) for i in range(64)]
    for (left, top), value in zip(places, pixels, strict=True):
        if value > 0:
            yield (
                f'<rect class="ink" x="{left}" y="{top}" width="{CELL}" height="{CELL}" '
                f'opacity="{value:.3f}"/>'
            )
    for (left, top), is_changed in zip(places, changed, strict=True):
        if is_changed:
            yield (f'<rect class="changed" x="{left}" y="{top}" width="{CELL}" height="{CELL}"/>')


def robustness(found: Comparison) -> Iterator[str]:
    """A row per attacker with a mark per kind of model, the robust one's value beside it."""
    yield text(376, 36, "Proven robustness", "head")
    shares = f"share of {found.instances} test images that stay right whatever the attacker does"
    yield text(376, 56, shares, "quiet")
    bottom = TOP + ROW * len(ATTACKERS) - 8
    for percent in (0, 50, 100):
        x = place(percent / 100)
        yield f'<line class="line" x1="{x}" x2="{x}" y1="{TOP - 4}" y2="{bottom}"/>'
        yield text(x, bottom + 18, f"{percent} %", "quiet", "middle")
    for i, ((norm, budget, what), judged) in enumerate(zip(ATTACKERS, found.judged, strict=True)):
        y = TOP + 12 + ROW * i
        yield text(376, y + 4, name_of(norm, budget))
        yield text(438, y + 4, what, "quiet")
        xs = {kind: place(of.robustness[0]) for kind, of in judged.items()}
        ends = sorted(xs.values())
        yield f'<line class="line" x1="{ends[0]}" x2="{ends[-1]}" y1="{y}" y2="{y}"/>'
        for kind, x in xs.items():
            yield mark(kind, x, y)
        value = f"{100 * judged['robust'].robustness[0]:.1f}"
        yield text(WIDTH - 20, y + 4, value, "robust", "end")
    x = 376.0
    for kind, title in KINDS.items():
        yield mark(kind, x + 6, HEIGHT - 24)
        yield text(x + 18, HEIGHT - 20, title)
        x += 150


def place(share: float) -> float:
    return round(LEFT + share * (RIGHT - LEFT), 1)


def mark(kind: str, x: float, y: float) -> str:
    """Told apart by form as well as by colour."""
    if kind == "plain":
        return f'<circle class="{kind}" cx="{x}" cy="{y}" r="5.5"/>'
    if kind == "certified":
        return f'<path class="{kind}" d="M{x} {y - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5z"/>'
    return f'<rect class="{kind}" x="{x - 5.5}" y="{y - 5.5}" width="11" height="11"/>'


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    of_class = f' class="{style}"' if style else ""
    return f'<text{of_class} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'


if __name__ == "__main__":
    main()
