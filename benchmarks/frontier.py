"""What the search finds hardest: rows of large forests and of many classes, radii, ranges.

    python benchmarks/frontier.py [--only wine-et-l1 radius] [--limit 10] [--rows 5]

Every setting is a model, an attacker and the first test rows: what is still open after `--limit`
seconds per instance, one thread, how far apart the bounds are there, whether the limit was kept
(1.2 × limit + 50 ms, wall clock of a call about one row), the processor time of all rows, which
other work on the machine disturbs less, and how much memory the answers took beyond the loaded
model. A setting is measured in a process of its own. Trained models are kept in `--cache` and
finished settings in `--results`, so that an interrupted run can be taken up again. What another
build of the package has measured is not taken over, but must not contradict.

The tables are scaled to [0, 1], shuffled by seed 0 and split 70/30; cod-rna keeps its published
training rows, is scaled already, and its test rows, which are sorted by class, are shuffled.
Fashion-MNIST is the published split, pixels / 255, of which the first 10,000 rows are trained on.
The regression is on scikit-learn's diabetes table. Forests grow trees of any depth.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import multiprocessing
import pickle
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import carvegbm as cg
from carvegbm import _core
from carvegbm_experiments.datasets import read_idx

Matrix = npt.NDArray[Any]


class Model(NamedTuple):
    """What is trained on what."""

    data: str
    kind: str
    trees: int


class Setting(NamedTuple):
    """A question about the first test rows of a model."""

    asks: str
    model: Model
    norm: Any
    budget: float | None
    rows: int
    wrong: bool = False
    """Take the rows that the model gets wrong: may an attacker make them right?"""
    limit: float = 10.0


WINE_RF, WINE_ET = Model("wine", "forest", 400), Model("wine", "extra trees", 400)
SPAM_RF, SPAM_ET = Model("spambase", "forest", 300), Model("spambase", "extra trees", 300)
SPAM_RF500, SPAM_ET500 = Model("spambase", "forest", 500), Model("spambase", "extra trees", 500)
HIGGS_RF = Model("higgs_lightgbm_7k", "forest", 500)
HIGGS_ET = Model("higgs_lightgbm_7k", "extra trees", 500)
COD_RNA = Model("cod_rna_full", "lightgbm 255", 1000)
FASHION_LGB = Model("fashion-mnist", "lightgbm 31", 2000)
FASHION_XGB = Model("fashion-mnist", "xgboost", 2000)
DIABETES = Model("diabetes", "regression forest", 200)

SECTIONS: dict[str, dict[str, Setting]] = {
    "forests": {
        "spam-et500-l1": Setting("verify", SPAM_ET500, 1, 0.03, 5),
        "spam-et500-inf": Setting("verify", SPAM_ET500, "inf", 0.03, 27),
        "spam-rf500-inf": Setting("verify", SPAM_RF500, "inf", 0.03, 27),
        "spam-rf-l1": Setting("verify", SPAM_RF, 1, 0.02, 25),
        "spam-et-l0": Setting("verify", SPAM_ET, 0, 2, 25),
        "higgs-et-l0": Setting("verify", HIGGS_ET, 0, 4, 2),
        "higgs-rf-l1": Setting("verify", HIGGS_RF, 1, 0.03, 20),
        "wine-rf-inf": Setting("verify", WINE_RF, "inf", 0.03, 40),
        "wine-et-l1": Setting("verify", WINE_ET, 1, 0.05, 25),
        "cod-lgb-l1": Setting("verify", COD_RNA, 1, 0.1, 50),
    },
    "classes": {
        "fashion-lgb-wrong-l0": Setting("verify", FASHION_LGB, 0, 2, 50, wrong=True),
        "fashion-xgb-wrong-l1": Setting("verify", FASHION_XGB, 1, 0.3, 50, wrong=True),
        "fashion-lgb-l0": Setting("verify", FASHION_LGB, 0, 5, 10),
    },
    "radius": {
        "radius-cod-inf": Setting("radius", COD_RNA, "inf", None, 7),
        "radius-cod-l1": Setting("radius", COD_RNA, 1, None, 5),
        "radius-higgs-rf-inf": Setting("radius", HIGGS_RF, "inf", None, 6),
        "radius-higgs-rf-l1": Setting("radius", HIGGS_RF, 1, None, 3),
        "radius-fashion-l1": Setting("radius", FASHION_LGB, 1, None, 2),
        "radius-fashion-l0": Setting("radius", FASHION_LGB, 0, None, 3),
    },
    "ranges": {
        "range-diabetes-inf": Setting("range", DIABETES, "inf", 0.2, 10, limit=2.0),
        "range-diabetes-l2": Setting("range", DIABETES, 2, 0.1, 10, limit=2.0),
    },
}
SETTINGS = {name: setting for section in SECTIONS.values() for name, setting in section.items()}


def main() -> None:
    """Print a line per setting, and one per row that is open."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="settings or sections")
    parser.add_argument("--limit", type=float, help="seconds per instance, for all settings")
    parser.add_argument("--rows", type=int, help="rows per setting at most")
    parser.add_argument("--threads", type=int, default=2, help="for training only")
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/frontier"), help="trained models"
    )
    parser.add_argument("--results", type=Path, help="finished settings; default: in --cache")
    options = parser.parse_args()
    names = chosen(options.only)
    cache = options.cache
    cache.mkdir(parents=True, exist_ok=True)
    results = options.results or cache / "results.jsonl"
    done, build = finished(results), build_of_package()
    print(
        f"{'setting':<21} {'data':<17} {'model':<17} {'trees':>5} {'norm':>4} {'budget':>6} "
        f"{'limit':>5} {'open':>9} {'median s':>8} {'worst s':>7} {'total s':>7} {'CPU s':>6} "
        f"{'overrun':>8} {'within?':>7} {'memory':>8} {'widest':>8}"
    )
    for name in names:
        setting = SETTINGS[name]
        limit = setting.limit if options.limit is None else options.limit
        rows = setting.rows if options.rows is None else min(setting.rows, options.rows)
        key = f"{name} {rows} rows {limit:g} s, build {build}"
        if key not in done:
            setting = setting._replace(limit=limit, rows=rows)
            done[key] = {"key": key, "name": name, **answered(setting, cache, options)}
            with results.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
        told = lines(name, setting, limit, done[key])
        told += contradictions(done[key], [of for of in done.values() if of["name"] == name])
        print("\n".join(told), flush=True)


def chosen(only: list[str] | None) -> list[str]:
    """Names of settings, each section standing for all of its own."""
    names: list[str] = []
    for given in only or SECTIONS:
        if given not in SETTINGS and given not in SECTIONS:
            known = ", ".join([*SECTIONS, *SETTINGS])
            sys.exit(f"no setting or section is called {given!r}; there are {known}")
        names += SECTIONS.get(given, [given])
    return list(dict.fromkeys(names))


def answered(setting: Setting, cache: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What was measured, the model trained if it is not there; each in a process of its own."""
    data, path = options.data, cache / f"{'-'.join(map(str, setting.model))}.pkl".replace(" ", "-")
    if not path.exists():
        alone(train, setting.model, data, path, options.threads)
    return alone(measure, setting, data, path)


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process; its memory and its libraries are its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        try:
            return processes.submit(function, *arguments).result()
        except cg.CarveError as error:
            sys.exit(str(error))


# ── measuring ────────────────────────────────────────────────────────────────────────────────


def measure(setting: Setting, data: Path, path: Path) -> dict[str, Any]:
    """Ask about one row after the other; what is known of each, and the memory it took."""
    with path.open("rb") as file:
        model = cg.load(pickle.load(file))
    X, y = test_rows(setting, model, data)
    told = []
    before, worked = fresh_peak(), time.process_time()
    for row in range(len(X)):
        started = time.perf_counter()
        status, bounds = ask(setting, model, X[[row]], y[[row]])
        seconds = time.perf_counter() - started
        told.append({"status": status, "seconds": seconds, "bounds": bounds})
    worked = time.process_time() - worked
    return {"rows": told, "processor": worked, "memory": peak() - before}


def ask(
    setting: Setting, model: cg.Ensemble, X: Matrix, y: Matrix
) -> tuple[str, list[tuple[float, float]]]:
    """A row's status, "unknown" if it is open, and bounds of the numbers in question."""
    how: dict[str, Any] = {"engine": "search", "threads": 1, "progress": False}
    how["timeout"] = setting.limit
    if setting.asks == "radius":
        radius = cg.radius(model, X, y, cg.Attacker(setting.norm), **how)
        status = "known" if radius.exact[0] else "unknown"
        return status, [(float(radius.lower[0]), float(radius.upper[0]))]
    attacker = cg.Attacker(setting.norm, setting.budget)
    if setting.asks == "range":
        ends = cg.output_range(model, X, attacker, **how)
        lowest = float(ends.lowest_lower[0]), float(ends.lowest_upper[0])
        highest = float(ends.highest_lower[0]), float(ends.highest_upper[0])
        return "known" if ends.exact[0] else "unknown", [lowest, highest]
    found = cg.verify(model, X, y, attacker, **how)
    margins = float(found.worst_margin_lower[0]), float(found.worst_margin_upper[0])
    return str(found.status[0]), [margins]


def test_rows(setting: Setting, model: cg.Ensemble, data: Path) -> tuple[Matrix, Matrix]:
    """The first test rows, or the first that the model gets wrong, as float32 (forests read it)."""
    _, _, X, y = load_split(setting.model.data, data)
    X = X[:5000].astype(np.float32)
    decisions = None if model.task == "regression" else model.decide(X)
    rows = np.flatnonzero(decisions != y[: len(X)]) if setting.wrong else np.arange(len(X))
    return X[rows[: setting.rows]], y[rows[: setting.rows]]


def fresh_peak() -> int:
    """Give back what loading has left, forget the peak, and say what is in use, in bytes."""
    if sys.platform != "linux":
        return peak()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """The most memory this process has had, in bytes."""
    if sys.platform != "linux":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not ru_maxrss, which a process inherits from the one that started it.
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


# ── models and data ──────────────────────────────────────────────────────────────────────────


def train(model: Model, data: Path, path: Path, threads: int) -> None:
    """Fit the model and keep it; all seeds are 0."""
    X, y, _, _ = load_split(model.data, data)
    fitted = estimator(model, threads).fit(X, y)
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        pickle.dump(fitted, file)
    unfinished.replace(path)


def estimator(model: Model, threads: int) -> Any:
    """What a model's kind stands for."""
    if model.kind.startswith("lightgbm"):
        import lightgbm

        return lightgbm.LGBMClassifier(
            n_estimators=rounds(model),
            num_leaves=int(model.kind.split()[1]),
            random_state=0,
            deterministic=True,
            force_col_wise=True,
            n_jobs=threads,
            verbose=-1,
        )
    if model.kind == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(
            n_estimators=rounds(model),
            max_depth=6,
            learning_rate=0.1,
            random_state=0,
            n_jobs=threads,
        )
    from sklearn import ensemble

    kinds = {
        "forest": ensemble.RandomForestClassifier,
        "extra trees": ensemble.ExtraTreesClassifier,
        "regression forest": ensemble.RandomForestRegressor,
    }
    return kinds[model.kind](model.trees, random_state=0, n_jobs=threads)


def rounds(model: Model) -> int:
    """Boosting grows a tree per class and round."""
    return model.trees // 10 if model.data == "fashion-mnist" else model.trees


def load_split(name: str, folder: Path) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Rows to train on, their labels, rows to test, their labels; in [0, 1]."""
    if name == "fashion-mnist":
        X, y = (images(folder / name, "train", part) for part in ("images", "labels"))
        X_test, y_test = (images(folder / name, "t10k", part) for part in ("images", "labels"))
        return X[:10_000] / 255, y[:10_000], X_test / 255, y_test
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True, scaled=False)
        return shuffled(X, y)
    path = folder / "tabular" / f"{name}.npz"
    if not path.exists():
        raise cg.CarveError(f"no {path}: point --data to the folder that holds tabular/{path.name}")
    stored = np.load(path, allow_pickle=True)
    if "X" in stored:
        return shuffled(stored["X"], np.unique(stored["y"], return_inverse=True)[1])
    X, X_test, y, y_test = (stored[part] for part in ("X_train", "X_test", "y_train", "y_test"))
    if name == "cod_rna_full":
        order = np.random.default_rng(0).permutation(len(y_test))
        return X, y, X_test[order], y_test[order]
    return shuffled(np.vstack([X, X_test]), np.concatenate([y, y_test]))


def shuffled(X: Matrix, y: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """Rows in [0, 1], in a random order, the first 70 % to train on."""
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    order, cut = np.random.default_rng(0).permutation(len(X)), int(0.7 * len(X))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def images(folder: Path, part: str, what: str) -> Matrix:
    """Images as rows of grey levels, or their labels."""
    dimensions = {"images": 3, "labels": 1}[what]
    path = folder / f"{part}-{what}-idx{dimensions}-ubyte.gz"
    if not path.exists():
        raise cg.CarveError(f"no {path}: point --data to the folder that holds {folder.name}/")
    values = read_idx(path)
    return values.reshape(len(values), -1) if what == "images" else values.astype(int)


# ── reporting ────────────────────────────────────────────────────────────────────────────────


def lines(name: str, setting: Setting, limit: float, found: dict[str, Any]) -> list[str]:
    """A line about the setting, and one for each row that is open."""
    rows, model = found["rows"], setting.model
    seconds = np.array([row["seconds"] for row in rows])
    open_rows = [(i, row) for i, row in enumerate(rows) if row["status"] == "unknown"]
    widths = [upper - lower for _, row in open_rows for lower, upper in row["bounds"]]
    budget = "" if setting.budget is None else f"{setting.budget:g}"
    within = "yes" if seconds.max() <= 1.2 * limit + 0.05 else "NO"
    whole = (
        f"{name:<21} {model.data:<17} {model.kind:<17} {model.trees:>5} {setting.norm:>4} "
        f"{budget:>6} {limit:>5g} {len(open_rows):>3} of {len(rows):>2} "
        f"{np.median(seconds):>8.3f} {seconds.max():>7.2f} {seconds.sum():>7.1f} "
        f"{found['processor']:>6.1f} {max(0.0, seconds.max() - limit):>6.3f} s {within:>7} "
        f"{found['memory'] / 1e6:>5.0f} MB {f'{max(widths):.3g}' if widths else '–':>8}"
    )
    what = {"verify": "worst margin", "radius": "radius", "range": "ends"}[setting.asks]
    return [
        whole,
        *(
            f"    row {i:>2}: {what} in "
            + " and ".join(f"[{lower:.6g}, {upper:.6g}]" for lower, upper in row["bounds"])
            for i, row in open_rows
        ),
    ]


def contradictions(found: dict[str, Any], others: list[dict[str, Any]]) -> list[str]:
    """A line for each row of which another measurement has proved something else."""
    told = []
    for rows in (other["rows"] for other in others):
        for i, (one, other) in enumerate(zip(found["rows"], rows, strict=False)):
            statuses = {one["status"], other["status"]} - {"unknown"}
            bounds = zip(one["bounds"], other["bounds"], strict=True)
            if len(statuses) > 1 or any(a[0] > b[1] or b[0] > a[1] for a, b in bounds):
                told.append(f"    row {i:>2}: CONTRADICTION to another measurement: {other}")
    return told


def finished(path: Path) -> dict[str, dict[str, Any]]:
    """What an earlier run has measured."""
    if not path.exists():
        return {}
    return {(found := json.loads(line))["key"]: found for line in path.read_text().splitlines()}


def build_of_package() -> str:
    """A name for the package as it is installed: its core and its sources."""
    digest = hashlib.sha256(Path(_core.__file__).read_bytes())
    for source in sorted(Path(cg.__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    main()
