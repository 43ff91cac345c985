"""The command demo: plain and large-spread models side by side, and one attack to look at."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from carvegbm.cli import options, output
from carvegbm.files import check_output, replacing

ATTACKERS: tuple[tuple[str, float], ...] = (("inf", 0.04), ("0", 1), ("1", 0.2))
"""Norm and budget; pixels are grey levels from 0 to 1 in steps of 1/16."""

_SHADES = " .:-=+*#%@"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo", epilog="Example: carvegbm demo")(demo)


def demo(
    *,
    picture: Annotated[
        Path, typer.Option(metavar="FILE.png", help="Where the picture of the attack goes.")
    ] = Path("carvegbm-demo.png"),
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Train on scikit-learn's digits 3 and 8, verify, and show an attack that changes one pixel.

    A plain LightGBM model and large-spread ones for three attackers: accuracy and proven
    robustness side by side. Takes some seconds and needs no data.
    """
    import lightgbm
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    import carvegbm
    from carvegbm.training.estimators import LargeSpreadClassifier
    from carvegbm.training.inputs import thread_count

    check_output(picture, (".png", ".svg", ".pdf"))
    started = time.monotonic()
    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8)
    X, X_test, y, y_test = train_test_split(
        X[chosen] / 16, y[chosen], test_size=0.4, stratify=y[chosen], random_state=0
    )
    learning: dict[str, Any] = {"n_estimators": 100, "num_leaves": 4, "min_child_samples": 5}
    learning |= {"random_state": 0, "n_jobs": thread_count(threads)}
    plain = lightgbm.LGBMClassifier(verbose=-1, **learning).fit(X, y)
    found: list[dict[str, Any]] = []
    fooled: Any = None
    for norm, budget in ATTACKERS:
        attacker = carvegbm.Attacker(norm, budget)
        model = LargeSpreadClassifier(norm=norm, budget=budget, **learning).fit(X, y)
        before = carvegbm.verify(plain, X_test, y_test, attacker, threads=threads, progress=False)
        after = model.verify(X_test, y_test)
        found.append(
            {
                "norm": norm,
                "budget": budget,
                "plain_accuracy": before.accuracy,
                "plain_robustness": list(before.robustness),
                "large_spread_accuracy": after.accuracy,
                "large_spread_robustness": list(after.robustness),
                "trees": model.ensemble_.n_trees,
            }
        )
        if norm == "0":
            fragile = np.flatnonzero(after.status == "fragile")
            if len(fragile):
                row = fragile[after.margin[fragile].argmax()]
                attack = carvegbm.attack(
                    model.ensemble_, X_test[[row]], y_test[[row]], attacker, threads=threads
                )
                answers = (y_test[row], model.predict(attack.witnesses)[0])
                fooled = (X_test[row], attack.witnesses[0], *answers)
    drawn = None if fooled is None else draw(picture, *fooled)
    seconds = time.monotonic() - started
    if json:
        document = {"instances": len(X_test), "results": found, "seconds": seconds}
        output.print_json({**document, "picture": None if drawn is None else str(drawn)})
        return
    output.print_table(
        f"digits 3 and 8: {len(X)} training and {len(X_test)} test images, pixels from 0 to 1",
        _rows(found),
        align="<" + ">" * 5,
    )
    output.say(
        "robustness: share of test images that are classified rightly whatever the attacker does, "
        "proven"
    )
    if fooled is not None:
        _show(*fooled)
    picture_note = "no picture without matplotlib: pip install 'carvegbm[plot]'"
    output.note(f"{seconds:.1f} s, " + (picture_note if drawn is None else f"wrote {drawn}"))


def _rows(found: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    head = ("attacker", "plain: accuracy", "robustness", "large-spread: accuracy", "robustness")
    rows: list[tuple[str, ...]] = [(*head, "trees")]
    for result in found:
        name = "∞" if result["norm"] == "inf" else result["norm"]
        lower, upper = result["plain_robustness"]
        rows.append(
            (
                f"L{name}, budget {result['budget']:g}",
                f"{100 * result['plain_accuracy']:.1f} %",
                f"{100 * lower:.1f} %"
                if lower == upper
                else f"{100 * lower:.1f}–{100 * upper:.1f} %",
                f"{100 * result['large_spread_accuracy']:.1f} %",
                f"{100 * result['large_spread_robustness'][0]:.1f} %",
                str(result["trees"]),
            )
        )
    return rows


def _show(
    image: npt.NDArray[np.float64], attacked: npt.NDArray[np.float64], right: Any, answer: Any
) -> None:
    """The image and its attacked twin as text; the changed pixels in brackets."""
    changed = (image != attacked).reshape(8, 8)
    where = np.flatnonzero(changed)
    moves = ", ".join(f"{image[i]:.3g} → {attacked[i]:.3g}" for i in where)
    output.say(f"\n{_a(right)} that one changed pixel ({moves}) turns into {_a(answer)}:")
    for row in range(8):
        sides = []
        for pixels in (image, attacked):
            shades = [_SHADES[int(v * (len(_SHADES) - 1))] for v in pixels.reshape(8, 8)[row]]
            sides.append(
                "".join(
                    f"[{shade}]" if mark else f" {shade} "
                    for shade, mark in zip(shades, changed[row], strict=True)
                )
            )
        output.say("  " + "    ".join(sides).rstrip())


def _a(digit: Any) -> str:
    return f"an {digit}" if digit == 8 else f"a {digit}"


def draw(
    path: Path,
    image: npt.NDArray[np.float64],
    attacked: npt.NDArray[np.float64],
    right: Any,
    answer: Any,
) -> Path | None:
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
