"""Every option of the command line, defined once, and the class of all commands.

A command lists the options it takes. `--help` shows the common ones in groups; `--help-all` adds
those marked `rare`. A command is a function of one argument: the values of its parameters.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from carvegbm.errors import CarveError

GROUPS = ("Attacker", "Data", "Engine", "Training", "Output", "Help")
FILE = click.Path(path_type=Path)


class Option(click.Option):
    """An option in a group of the help page.

    The declaration is as help shows it, "-o, --output FILE"; without a metavar it is a flag.
    """

    def __init__(
        self, declaration: str, sentence: str, group: str, rare: bool = False, **settings: Any
    ) -> None:
        words = declaration.replace(", -", " -").split()
        names = [word for word in words if word.startswith("-")]
        metavar = next((word for word in words if not word.startswith("-")), None)
        settings.setdefault("show_default", metavar is not None)
        if metavar is None:  # is_flag=False would make a value optional
            settings["is_flag"] = True
        super().__init__(names, metavar=metavar, help=sentence, **settings)
        self.group, self.rare = group, rare

    def variant(self, **changes: Any) -> Option:
        """Return a copy with other attributes."""
        found = copy.copy(self)
        for name, value in changes.items():
            setattr(found, name, value)
        return found


class Argument(click.Argument):
    """An argument with a sentence for the help page."""

    def __init__(self, metavar: str, sentence: str, **settings: Any) -> None:
        super().__init__([metavar.partition(".")[0].lower()], metavar=metavar, **settings)
        self.sentence = sentence  # not all versions of click have arguments with help

    def make_metavar(self, *_: Any) -> str:
        """Return the metavar, in brackets if the argument may be left out."""
        shown = f"{self.metavar}..." if self.nargs != 1 else str(self.metavar)
        return shown if self.required else f"[{shown}]"


class Command(click.Command):
    """A command whose help page shows options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options; rare options only for --help-all."""
        parameters = self.get_params(ctx)
        arguments = [(str(p.metavar), p.sentence) for p in parameters if isinstance(p, Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments, col_max=24)
        for group in GROUPS:
            shown = [
                record
                for p in parameters
                if isinstance(p, Option) and p.group == group and (ctx.meta.get(ALL) or not p.rare)
                if (record := p.get_help_record(ctx))
            ]
            if shown:
                with formatter.section(group):
                    formatter.write_dl(shown, col_max=24)

    def get_help_option(self, _ctx: click.Context) -> click.Option:
        """Return --help, which is listed among the options."""
        return HELP


def command(
    *parameters: click.Parameter | Sequence[click.Parameter], example: str, name: str | None = None
) -> Callable[[Callable[[Any], Any]], Command]:
    """Make a command of a function; its docstring is the text of the help page."""
    listed: list[click.Parameter] = []
    for some in parameters:
        listed += [some] if isinstance(some, click.Parameter) else some
    has_rare = any(isinstance(p, Option) and p.rare for p in listed)

    def decorate(function: Callable[[Any], Any]) -> Command:
        return Command(
            name or function.__name__,
            params=[*listed, *([HELP_ALL] if has_rare else [])],
            callback=lambda **given: function(SimpleNamespace(**given)),
            help=function.__doc__,
            epilog=f"Example: {example}",
            context_settings=HELP_NAMES,
        )

    return decorate


def _show_help(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[ALL] = option is HELP_ALL
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


ALL = "carvegbm.help_all"
HELP_NAMES = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
HELP = Option(
    "-h, --help", "Show this page.", "Help", is_eager=True, expose_value=False, callback=_show_help
)
HELP_ALL = Option(
    "--help-all",
    "Show all options.",
    "Help",
    is_eager=True,
    expose_value=False,
    callback=_show_help,
)


# ── checks ───────────────────────────────────────────────────────────────────────────────────


class Norm(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.5
    """A norm as a number; `Attacker` checks its range."""

    name = "norm"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | float:
        """Return the number, or suggest it for a name such as l2."""
        try:
            number = float(value)
            return int(number) if number == number // 1 and abs(number) < 1e15 else number
        except ValueError:
            named = re.fullmatch(r"l_?(\d+|inf|∞)", str(value).lower())
            remedy = f"; write {named[1].replace('∞', 'inf')}" if named else ""
            self.fail(f"norm must be 0, 1, 2, … or inf, got {value!r}{remedy}", param, ctx)


class Whole(click.IntRange):
    """A whole number in a range."""

    name = "whole number"


COUNT = Whole(min=1)


class Matching(click.ParamType):  # type: ignore[type-arg]
    """Text that one of some forms allows."""

    name = "text"

    def __init__(self, pattern: str, form: str) -> None:
        self._pattern, self._form = pattern, form

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the text."""
        if not re.fullmatch(self._pattern, value):
            self.fail(f"must be {self._form}, got {value!r}", param, ctx)
        return str(value)


# ── arguments ────────────────────────────────────────────────────────────────────────────────

MODEL = Argument(
    "MODEL",
    "LightGBM, XGBoost, CatBoost, ONNX, .silva or carvegbm JSON file, or the word sample.",
)
DATA = Argument(
    "DATA",
    "CSV, LIBSVM, .npz, .npy or Parquet file with labels, or the word sample.",
    required=False,
)
DATA_FILES = Argument(
    "DATA",
    f"{DATA.sentence[:-1]}; several files, a folder or a pattern ('part-*.parquet') are answered "
    "file by file.",
    required=False,
    nargs=-1,
)
TABLE = Argument("DATA", DATA.sentence)

# ── the attacker ─────────────────────────────────────────────────────────────────────────────

ATTACKER_FILE = Option(
    "--attacker FILE",
    "The attacker, as TOML or JSON; --norm and --budget override its own.",
    "Attacker",
    type=FILE,
)
NORM = Option(
    "--norm P", "Norm of the attacker: 0, 1, 2, …, inf; default inf.", "Attacker", type=Norm()
)
BUDGET = Option("--budget K", "Budget of the attacker.", "Attacker", type=float)
SCALE = Option(
    "--scale S",
    "Unit of distance: one number, F=S,… for single features, one number per feature "
    "separated by commas, or a file of them.",
    "Attacker",
    multiple=True,
    default=(),
)
DIRECTION = Option(
    "--direction F=up|down,…",
    "These features may only grow, or only shrink.",
    "Attacker",
    rare=True,
    multiple=True,
    default=(),
)
FEATURES = Option(
    "--features F,G", "Only these features may be changed, by name or position.", "Attacker"
)
BOUNDS = Option(
    "--bounds LO,HI",
    "Changed values stay within these bounds: two numbers, F=LO:HI,… for single features, "
    "or a file with a line 'lo hi' per feature.",
    "Attacker",
    multiple=True,
    default=(),
)
STEP = Option(
    "--step F=STEP,…",
    "Changed values of these features are multiples of a number or fraction; without F= "
    "of all features.",
    "Attacker",
    rare=True,
    multiple=True,
    default=(),
)
LIMITS = (SCALE, DIRECTION, FEATURES, BOUNDS, STEP)
ATTACKER = (ATTACKER_FILE, NORM, BUDGET, *LIMITS)

# ── models and data ──────────────────────────────────────────────────────────────────────────

LABEL = Option("--label COL", "Label column by name or position (0 first, -1 last).", "Data")
NO_LABEL = Option(
    "--no-label",
    "DATA holds no labels: the model's own answers count as correct.",
    "Data",
    rare=True,
)
CLASSES = Option(
    "--classes A,B",
    "The data's labels in the order of the model's outputs, e.g. -1,1.",
    "Data",
    rare=True,
)
N_FEATURES = Option(
    "--n-features N",
    "Number of features, for an ONNX model that lacks it.",
    "Data",
    type=COUNT,
    rare=True,
)
ITERATIONS = Option(
    "--trees all|best|N",
    "Boosting iterations of the model to use: all, those up to the best one of early "
    "stopping, or the first N; by default those that its library's estimator uses.",
    "Data",
    type=Matching("all|best|0*[1-9]\\d{0,17}", "all, best or a whole number >= 1"),
    rare=True,
)
ZERO_BASED = Option(
    "--zero-based/--one-based",
    "Where LIBSVM indices start; by default at 0 iff index 0 occurs.",
    "Data",
    default=None,
    rare=True,
)
ABSENT = Option(
    "--absent zero|missing",
    "Meaning of entries that LIBSVM text and sparse matrices leave out; by default zero "
    "in text, and in a matrix what the model's library assumes.",
    "Data",
    type=click.Choice(["zero", "missing"]),
    rare=True,
)
ROWS = Option("--rows N", "Take only the first N instances.", "Data", type=COUNT, rare=True)
ROW = Option(
    "--row N",
    "The instance to explain, counted from 0 as in results and errors; required.",
    "Data",
    type=Whole(min=0),
)
SHOW_TREES = Option(
    "--show-trees N",
    "Show so many trees one by one, 20 by default, and the others in one line.",
    "Output",
    type=Whole(min=0),
)
SAMPLE = Option(
    "--sample N|all",
    "Analyse a random sample of this many rows if there are more.",
    "Data",
    default="500",
    type=Matching("all|0*[1-9]\\d{0,17}", "a whole number of rows from 1 on, or all"),
)
IMAGES = Option(
    "--images HxW",
    "Rows are grey images of that size, e.g. 28x28.",
    "Data",
    type=Matching("\\d+[xX]\\d+", "HEIGHTxWIDTH, e.g. 28x28"),
    rare=True,
)
READING = (LABEL, CLASSES, N_FEATURES, ITERATIONS, ZERO_BASED, ABSENT)

# ── engines ──────────────────────────────────────────────────────────────────────────────────

TIMEOUT = Option(
    "--timeout SECONDS", "Time limit per instance.", "Engine", type=float, default=10.0
)
REPORT_TIMEOUT = TIMEOUT.variant(default=2.0, help="Time limit per instance and question.")
THREADS = Option(
    "--threads N", "Threads to use; by default all cores.", "Engine", rare=True, type=COUNT
)
MAX_BUDGET = Option("--max-budget K", "Look no further than this budget.", "Engine", type=float)
ENGINE = Option(
    "--engine NAME",
    "auto, large-spread or search; auto takes the fastest that can decide.",
    "Engine",
    type=click.Choice(["auto", "large-spread", "search"]),
    default="auto",
    rare=True,
)
METHOD = Option(
    "--method NAME",
    "efficient or basic: two algorithms with the same answers.",
    "Engine",
    type=click.Choice(["efficient", "basic"]),
    default="efficient",
    rare=True,
)
GRID = Option(
    "--grid L",
    "Conservative mode: round costs to L decimals, never optimistic.",
    "Engine",
    type=Whole(min=0),
    rare=True,
)
EXACT_MARGIN = Option(
    "--exact-margin",
    "Find worst margins, and not only their signs; takes longer.",
    "Engine",
    rare=True,
)
ON_VIOLATION = Option(
    "--on-violation NAME",
    "raise or unknown. Use the large-spread engine only; if the model is not "
    "large-spread: stop, or say unknown for the rows concerned.",
    "Engine",
    type=click.Choice(["raise", "unknown"]),
    rare=True,
)

# ── output ───────────────────────────────────────────────────────────────────────────────────

JSON = Option("--json", "Print one JSON document instead of tables.", "Output")
OUTPUT = Option(
    "-o, --output FILE|FOLDER/",
    "Write the result: .json, .csv or .parquet; or a folder, with a file per file of DATA.",
    "Output",
)
WITNESS_FILE = OUTPUT.variant(
    help="Write the witnesses and their distances (.npz), or the distances alone (.json, .csv, "
    ".parquet); or a folder, with a file of both per file of DATA."
)


def output_file(sentence: str) -> Option:
    """Return --output of a command that writes one file."""
    return Option("-o, --output FILE", sentence, "Output", type=FILE)


FORMAT = Option(
    "--format NAME",
    "Format of the files in the folder --output: parquet or csv; default parquet.",
    "Output",
    type=click.Choice(["parquet", "csv"]),
    rare=True,
)
RESUME = Option("--resume", "Continue the interrupted run that --output began.", "Output")
WITNESSES = Option(
    "--witnesses FILE.npz",
    "Write the witnesses and their distances.",
    "Output",
    type=FILE,
    rare=True,
)
PROOF = Option(
    "--proof FILE",
    "Write proofs of all statuses, for carvegbm check or anyone else.",
    "Output",
    type=FILE,
)


# ── texts with several values ────────────────────────────────────────────────────────────────


def labels(text: str | None) -> list[Any] | None:
    """Return labels separated by commas, as numbers where all of them are."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    for kind in (int, float):
        try:
            return [kind(part) for part in parts]
        except ValueError:
            continue
    return list(parts)


def features(text: str | None) -> list[int | str] | None:
    """Return features separated by commas, by position or by name."""
    return None if text is None else [_feature(part) for part in text.split(",")]


def _feature(text: str) -> int | str:
    text = text.strip()
    return int(text) if text.isdecimal() else text


def is_file(texts: Sequence[str]) -> bool:
    """Return whether an option is given a file, and no values."""
    if len(texts) != 1 or _is_numbers(texts[0]):
        return False
    return Path(texts[0]).exists() or "=" not in texts[0]


def _is_numbers(text: str) -> bool:
    try:
        return bool([float(part) for part in text.split(",")])
    except ValueError:
        return False


def by_feature(texts: Sequence[str], option: str) -> dict[int | str, str] | None:
    """Return the values of "F=V,G=W" by feature; None if single features are not named."""
    if is_file(texts) or not any("=" in text for text in texts):
        if len(texts) > 1:
            raise CarveError(f"{option} is given twice; only F=VALUE may be repeated")
        return None
    found: dict[int | str, str] = {}
    for part in ",".join(texts).split(","):
        name, equals, value = (some.strip() for some in part.rpartition("="))
        if not (name and equals and value):
            raise CarveError(f"{option} {part}: write FEATURE=VALUE")
        if _feature(name) in found:
            raise CarveError(f"{option} names {name} twice; drop one of them")
        found[_feature(name)] = value
    return found


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CarveError(f"{option}: {text!r} is not a number") from None


def _numbers(text: str, option: str) -> Any:
    """Return numbers separated by commas, or those in a text or .npy file."""
    import numpy as np

    from carvegbm.errors import DataError
    from carvegbm.storage.files import naming

    if _is_numbers(text):
        return np.array([float(part) for part in text.split(",")])
    if not Path(text).is_file():
        raise DataError(f"{option} {text}: neither numbers separated by commas nor a file")
    try:
        with naming(text):
            content = Path(text).read_bytes()
        if content.startswith(b"\x93NUMPY"):
            return np.asarray(np.load(text, allow_pickle=False), dtype=np.float64)
        lines = content.decode("utf-8-sig").replace(",", " ").replace(";", " ").splitlines()
        return np.loadtxt(lines, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{option} {text}: {error}") from None


def scale(texts: Sequence[str], directions: Sequence[str] = ()) -> Any:
    """Return one number, an array, or numbers or pairs (down, up) by feature; None if not given."""
    single = by_feature(texts, "--scale")
    if directions:
        if texts and single is None:
            raise CarveError("--direction needs --scale by feature: --scale FEATURE=S")
        closed = by_feature(directions, "--direction")
        if closed is None:
            raise CarveError(f"--direction {directions[0]}: write FEATURE=up or FEATURE=down")
        found: dict[int | str, Any] = {
            name: _number(value, f"--scale {name}") for name, value in (single or {}).items()
        }
        for name, value in closed.items():
            if value not in ("up", "down"):
                raise CarveError(f"--direction {name} must be up or down, got {value!r}")
            unit = found.get(name, 1.0)
            found[name] = (0, unit) if value == "up" else (unit, 0)
        return found
    if single is not None:
        return {name: _number(value, f"--scale {name}") for name, value in single.items()}
    if not texts:
        return None
    values = _numbers(texts[0], "--scale")
    return float(values.reshape(-1)[0]) if values.size == 1 else values


def bounds(texts: Sequence[str]) -> Any:
    """Return (lowest, highest) of all features, or by feature; None if not given."""
    from carvegbm.errors import DataError

    single = by_feature(texts, "--bounds")
    if single is not None:
        found = {}
        for name, value in single.items():
            low, colon, high = value.partition(":")
            if not colon:
                raise CarveError(f"--bounds {name}={value}: write {name}=LO:HI")
            option = f"--bounds {name}"
            found[name] = (_number(low or "-inf", option), _number(high or "inf", option))
        return found
    if not texts:
        return None
    values = _numbers(texts[0], "--bounds")
    if values.shape == (2,):
        return float(values[0]), float(values[1])
    if values.ndim != 2 or values.shape[1] != 2:
        raise DataError(
            f"--bounds {texts[0]}: give LO,HI, or a file with a line 'lo hi' per feature"
        )
    return values[:, 0], values[:, 1]


def step(texts: Sequence[str]) -> Any:
    """Return the step of all features, or steps by feature; None if not given."""
    single = by_feature(texts, "--step") if any("=" in text for text in texts) else None
    if single is not None:
        return single
    if len(texts) > 1:
        raise CarveError("--step is given twice; only F=STEP may be repeated")
    return texts[0] if texts else None
