"""The command demo: plain, certified and robust models side by side, and one witness.

Comes in: what `digits` found. Goes out: a table and two images in text, a picture, or JSON.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
import typer

from carvegbm.cli.shared import digits, options, output
from carvegbm.storage.files import check_output, naming, replacing

if TYPE_CHECKING:
    from rich.text import Text

    from carvegbm.cli.shared.digits import Comparison, Judged, Witness

Floats = npt.NDArray[np.float64]

_SHADES = " .:-=+*#%@"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo", epilog="Example: carvegbm demo")(demo)


def demo(
    *,
    picture: Annotated[
        Path, typer.Option(metavar="FILE.png", help="Where the picture of the witness goes.")
    ] = Path("carvegbm-demo.png"),
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train on scikit-learn's digits 3 and 8, verify, and show a witness: one changed pixel.

    Plain LightGBM, certified and robust models, for six attackers: accuracy and proven
    robustness side by side. Takes less than a minute and needs no data.
    """
    from carvegbm.progress import progress_bar

    check_output(picture, (".png", ".svg", ".pdf"))
    started = time.monotonic()
    with progress_bar(None, digits.FOLDS * len(digits.ATTACKERS), "training, verifying") as tick:
        found = digits.compare(threads, tick)
    witness = found.witness
    drawn = None
    if witness is not None:
        drawn = draw(picture, witness.image, witness.attacked, witness.label, witness.answer)
    seconds = time.monotonic() - started
    if json:
        document = {**found.to_dict(), "seconds": seconds}
        output.print_json({**document, "picture": None if drawn is None else str(drawn)})
        return
    _show_table(found)
    if witness is not None:
        _show_witness(witness)
    output.say(
        "\nnext: the model and data that come with carvegbm, then a model from your own data"
    )
    output.say("  carvegbm verify sample --norm inf --budget 0.02")
    output.say("  carvegbm train DATA.csv --norm inf --budget 0.02 --robust -o model.txt")
    without = "no picture without matplotlib: pip install 'carvegbm[plot]'"
    output.note(f"{seconds:.1f} s, " + (without if drawn is None else f"wrote {drawn}"))


# ── showing ──────────────────────────────────────────────────────────────────────────────────


def _show_table(found: Comparison) -> None:
    from rich.text import Text

    images = f"{found.instances} images, each judged by models that never saw it; shares in %"
    _print(Text(f"digits 3 and 8: {images}"))
    groups = "".join(f"  {title:^21}" for title in digits.KINDS.values())
    _print(Text(f"{'':30}{groups}".rstrip()))
    _print(
        Text(f"  {'the attacker may change':28}" + "  accuracy robust trees" * len(digits.KINDS))
    )
    for (norm, budget, what), judged in zip(digits.ATTACKERS, found.judged, strict=True):
        line = Text(f"  {digits.name_of(norm, budget):7}  {what:19}")
        best = max(of.robustness[0] for of in judged.values())
        for of in judged.values():
            is_best = of.robustness[0] == best
            line.append(f"  {100 * of.accuracy:8.1f} ")
            line.append(_robust(of, is_best), style="bold green" if is_best else "")
            line.append(f" {of.trees:5.0f}")
        _print(line)
    output.say(
        "robust: share that stays right whatever the attacker does, proven; * the best of three"
    )
    for remark in _remarks(found):
        output.say(remark)


def _robust(of: Judged, is_best: bool) -> str:
    """Proven robustness in six places; an interval, where time ran out, takes what it needs."""
    lower, upper = (100 * share for share in of.robustness)
    shown = f"{lower:.1f}" if lower == upper else f"{lower:.1f}–{upper:.1f}"
    return f"{shown + ('*' if is_best else ' '):>6}"


def _remarks(found: Comparison) -> Iterator[str]:
    """Where training loses to a simpler kind, said in so many words."""
    for kind, simpler in (("certified", "plain"), ("robust", "plain"), ("robust", "certified")):
        below = [
            digits.name_of(norm, budget)
            for (norm, budget, _), judged in zip(digits.ATTACKERS, found.judged, strict=True)
            if judged[kind].robustness[0] < judged[simpler].robustness[0]
        ]
        if below:
            yield f"{digits.KINDS[kind]} is below {digits.KINDS[simpler]} at {', '.join(below)}"


def _show_witness(witness: Witness) -> None:
    """The image and its attacked twin as text; the changed pixels in brackets."""
    image, attacked = witness.image, witness.attacked
    changed = (image != attacked).reshape(8, 8)
    where = np.flatnonzero(changed)
    moves = ", ".join(f"{image[i]:.3g} → {attacked[i]:.3g}" for i in where)
    label, answer = _a(witness.label), _a(witness.answer)
    output.say(
        f"\n{label} that one changed pixel ({moves}) turns into {answer} for plain LightGBM:"
    )
    for row in range(8):
        sides = []
        for pixels in (image, attacked):
            # Rounded up: the faintest pixel shows.
            shades = [_SHADES[math.ceil(v * (len(_SHADES) - 1))] for v in pixels.reshape(8, 8)[row]]
            sides.append(
                "".join(
                    f"[{shade}]" if mark else f" {shade} "
                    for shade, mark in zip(shades, changed[row], strict=True)
                )
            )
        output.say("  " + "    ".join(sides).rstrip())
    output.say(
        f"the robust model says {witness.label} whichever pixel is changed, to any value: proven"
    )


def _print(line: Text) -> None:
    """A line with its styles on a terminal, without them elsewhere; rich neither cuts nor wraps."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        output.say(line.plain)
        return
    with naming("standard output"):
        console.print(line, soft_wrap=True)


def _a(digit: int) -> str:
    return f"an {digit}" if digit == 8 else f"a {digit}"


# ── drawing ──────────────────────────────────────────────────────────────────────────────────


def draw(path: Path, image: Floats, attacked: Floats, right: int, answer: int) -> Path | None:
    """A picture of the image, its attacked twin and what was changed; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    titles = (_a(right), f"attacked: now {_a(answer)}", "what was changed")
    images = (image, attacked, attacked - image)
    for axes, title, pixels in zip(figure.subplots(1, 3), titles, images, strict=True):
        is_change = pixels is images[2]
        axes.imshow(
            pixels.reshape(8, 8),
            cmap="RdBu_r" if is_change else "gray_r",
            vmin=-1 if is_change else 0,
            vmax=1,
        )
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix[1:])
    return path
