"""Record what the package answers, and compare a later version with it, bit for bit.

    python tools/golden.py record FOLDER
    python tools/golden.py compare FOLDER [--only PATTERN] [--except FILE]

`record` trains small models of every library on generated data, stores models, data and the current
proof checker in FOLDER, runs all cases and writes their answers to FOLDER/results.json. `compare`
runs the cases again on the stored files, prints a line per difference, and exits with 1 if there is
one. Floats are stored by their repr, so equal means identical; times and versions are left out.

PATTERN selects cases by name, such as "python/lgb-*/l1". FILE lists expected differences, one
pattern per line for "CASE FIELD", such as "report/* *.retraining"; text after # is a comment.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib.util
import io
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import carvegbm as cg

# ── every call into carvegbm: only this section depends on the names of the API ──────────────

Attacker, Refused, load = cg.Attacker, cg.CarveError, cg.load
LIMITS: dict[str, Any] = {"timeout": 60.0, "threads": 1}
CHECKER = Path(__file__).resolve().parent.parent / "src" / "carvegbm_check.py"
UNTIMED = ("seconds", "times", "versions", "carvegbm")
"""Fields with times and versions, which are left out of all answers."""
COMMANDS = [
    "verify --json",
    "radius --json",
    "attack --output OUT/attack.npz",
    "verify --output OUT/result.csv --exact-margin",
    "explain --row 7 --json",
    "radius --output OUT/radius.parquet",
    "report --sample 20 --output OUT/report.json",
    "verify --output OUT/all/ --format csv",
    "attack --json",
    "verify --output OUT/result.json --witnesses OUT/witnesses.npz",
]
"""OUT is an empty folder; the content of the files written there is part of the answer."""
ABOUT = ["info --json", "convert OUT/model.json", "spread --budget 0.01 --json"]


def ask(query: str, model: Any, X: Any, y: Any, attacker: Any, **options: Any) -> dict[str, Any]:
    """Return the answers to one query about rows."""
    options = LIMITS | options
    if query == "explain":
        rows = range(0, len(y), 4)
        made = [cg.explain(model, X, y, attacker, row=row, **options) for row in rows]
        return {f"row {one.row}": one.to_dict() for one in made}
    if query == "minimal":
        from carvegbm import engines, minimal, problem

        settings, joined = engines.Settings(**options), problem.Problem(model, attacker)
        radii = cg.radius(model, X, y, attacker, progress=False, **options)
        found = minimal.minimal_witnesses(joined, joined.rows(X, y, 1), radii, settings, False)
        return {"witnesses": [vars(one) for one in found], "missed": found.missed}
    options["progress"] = False
    if query == "high_confidence":
        return {"answers": cg.high_confidence(model, X, attacker, 0.7, **options)}
    if query == "stability":
        found = {"answers": cg.stability(model, X, attacker, 0.3, **options)}
        if attacker.norm == float("inf"):
            found["small"] = cg.small_neighbourhood(model, X, attacker, 2.5, **options)
        return found
    if query == "exact_margin":
        query, options["exact_margin"] = "verify", True
    if query == "robustness_curve":
        options["budgets"] = budgets(attacker)
    given = (X, attacker) if query == "output_range" else (X, y, attacker)
    result = getattr(cg, query)(model, *given, **options)
    answers = {**result.totals(), **result.columns()}
    if query == "attack":
        z = result.witnesses
        if hasattr(z, "indptr"):
            z = {"indptr": z.indptr, "indices": z.indices, "data": z.data}
        answers |= {"labels": result.labels, "witnesses": z}
    return answers


def ask_dask(query: str, model: Any, X: Any, y: Any, attacker: Any) -> dict[str, Any]:
    """Return the answers about the same rows in three partitions, computed in this process."""
    import dask

    from carvegbm import dask as cgd

    if isinstance(X, pd.DataFrame):
        y = dask.dataframe.from_pandas(pd.Series(y), npartitions=3)
        X = dask.dataframe.from_pandas(X, npartitions=3)
    else:
        X, y = dask.array.from_array(X, chunks=(8, -1)), dask.array.from_array(y, chunks=8)
    options = {"budgets": budgets(attacker)} if query == "robustness_curve" else {}
    given = (X, attacker) if query == "output_range" else (X, y, attacker)
    made = getattr(cgd, query)(model, *given, **LIMITS, **options)
    answers, totals = dask.compute(made.answers, made.totals, scheduler="synchronous")
    return {**totals.to_dict(), **{name: answers[name].to_list() for name in answers.columns}}


def write_proof(model: Any, X: Any, y: Any, attacker: Any, file: Path) -> None:
    cg.verify(model, X, y, attacker, proof=file, progress=False, **LIMITS)


def report(model: Any, X: Any, y: Any, attackers: list[Any]) -> dict[str, Any]:
    return cg.report(model, X, y, attackers, progress=False, **LIMITS).to_dict()


def describe(model: Any, X: Any, file: Path) -> dict[str, Any]:
    """Write a model as JSON; return its scores, its labels and the digest of the file."""
    model.save(file)
    digest = sha256(file.read_bytes()).hexdigest()
    return {"raw": model.raw_score(X), "labels": model.decide(X), "json": digest}


def command(folder: Path, arguments: list[str]) -> tuple[int, str]:
    """Run a command in a folder; return its exit code and standard output."""
    program = [sys.executable, "-m", "carvegbm.cli", *arguments]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def train_large_spread(task: str, X: Any, y: Any, attacker: dict[str, Any], file: Path) -> None:
    kind = cg.LargeSpreadRegressor if task == "regression" else cg.LargeSpreadClassifier
    model = kind(**attacker, n_estimators=12, num_leaves=6, min_child_samples=5, random_state=0)
    model.fit(X, y).ensemble_.save(file)


# ── data ─────────────────────────────────────────────────────────────────────────────────────

ROWS = 300
FEW = slice(3, None, 13)
"""The rows of most cases."""
NUMBERS = ("ratio", "tiny", "bytes", "count", "tenths", "wide", "speed")
GROUP = ("own", "rent", "other")
CATEGORIES = {"colour": list("abcdef"), "grade": ["low", "mid", "high"]}
NAMES = (*NUMBERS[:6], *GROUP, "speed", *CATEGORIES)
BINARY, MULTI, REGRESSION = TASKS = ("binary", "multiclass", "regression")
FORMATS = ("csv", "parquet", "npy", "libsvm")


def make_frames() -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Frames (numbers only; with missing values; and with categories; as texts), and labels."""
    rng = np.random.default_rng(34)
    n = ROWS
    group, colour, grade = (rng.integers(0, k, n) for k in (3, 6, 3))
    frame = pd.DataFrame(
        {
            "ratio": rng.random(n),
            "tiny": 1e-3 * rng.normal(size=n),
            "bytes": np.round(1e4 * rng.lognormal(size=n)),
            "count": rng.integers(0, 21, n).astype(float),
            "tenths": rng.integers(-30, 31, n) / 10,
            "wide": np.round(100 * rng.normal(size=n), 2),
            **{name: (group == i).astype(float) for i, name in enumerate(GROUP)},
            "speed": rng.exponential(5, n),
            "colour": colour.astype(float),
            "grade": grade.astype(float),
        }
    )
    y = frame["ratio"] + 0.05 * frame["count"] + np.log(frame["bytes"]) / 4 + 0.3 * (group == 1)
    y += 0.3 * frame["tenths"] * (grade > 0) + 0.8 * np.isin(colour, [1, 4]) + 200 * frame["tiny"]
    y += frame["wide"] / 200 - 0.04 * frame["speed"] + 0.1 * rng.normal(size=n)
    missing = frame.copy()
    for name in ("ratio", "wide", "speed"):
        missing[name] = missing[name].mask(rng.random(n) < 0.12)
    categories = missing.copy()
    for name, codes in (("colour", colour), ("grade", grade)):
        categories[name] = pd.Categorical.from_codes(codes, CATEGORIES[name])
    texts = categories.astype(dict.fromkeys(CATEGORIES, str))
    categories["colour"] = categories["colour"].mask(rng.random(n) < 0.05)
    order = y.rank().to_numpy() / (n + 1)
    labels = {BINARY: (order > 0.5).astype(int), MULTI: (order * 4).astype(int), REGRESSION: y}
    frames = {"plain": frame, "missing": missing, "categories": categories, "texts": texts}
    return frames, {task: np.asarray(of) for task, of in labels.items()}


def write_files(X: pd.DataFrame, y: Any, name: str) -> None:
    """Write rows and labels in every format that the command line reads; `name` has no suffix."""
    table = X.assign(label=y)
    table.to_csv(f"{name}.csv", index=False)
    table.iloc[FEW].to_csv(f"{name}-few.csv", index=False)
    table.to_parquet(f"{name}.parquet")
    if all(kind.kind == "f" for kind in X.dtypes):
        np.save(f"{name}-X.npy", X.to_numpy())
        np.save(f"{name}-y.npy", y)
        with Path(f"{name}.libsvm").open("w") as file:
            for label, row in zip(y, X.to_numpy().tolist(), strict=True):
                print(label, *[f"{i}:{v}" for i, v in enumerate(row, 1) if v != 0], file=file)


# ── models ───────────────────────────────────────────────────────────────────────────────────


class Model(NamedTuple):
    """A model to train: `fit(X, y, path)` saves it to a path with the suffix."""

    task: str
    data: str
    suffix: str
    fit: Callable[[Any, Any, Path], None]
    named: bool = True
    """Whether the model knows the names of its features."""


BOOSTERS: dict[str, dict[str, Any]] = {
    "lightgbm.LGBM": {"n_estimators": 10, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
    | {"verbose": -1, "deterministic": True, "min_data_per_group": 5, "max_cat_to_onehot": 1},
    "xgboost.XGB": {"n_estimators": 10, "max_depth": 3, "n_jobs": 1, "enable_categorical": True}
    | {"max_cat_to_onehot": 1},
    "catboost.CatBoost": {"iterations": 10, "depth": 3, "learning_rate": 0.4, "thread_count": 1}
    | {"one_hot_max_size": 20, "verbose": False, "allow_writing_files": False},
}


def booster(kind: str, task: str, data: str, suffix: str, **options: Any) -> Model:
    """A model of LightGBM, XGBoost or CatBoost."""

    def fit(X: Any, y: Any, path: Path) -> None:
        package, prefix = kind.split(".")
        library = import_module(package)
        name = prefix + ("Regressor" if task == REGRESSION else "Classifier")
        model = getattr(library, name)(**BOOSTERS[kind] | options)
        if package == "catboost":
            pool = library.Pool(X, y, cat_features=list(CATEGORIES) if data == "texts" else None)
            listed = pool if suffix == "json" else None
            model.fit(pool).save_model(str(path), format=suffix, pool=listed)
        else:
            model.fit(X, y)
            getattr(model, "booster_", model).save_model(path)

    return Model(task, data, suffix, fit, named=suffix != "onnx")


def forest(kind: str, task: str, data: str = "plain", to: str = "pickle", **options: Any) -> Model:
    """A model of scikit-learn, pickled or converted to ONNX."""

    def fit(X: Any, y: Any, path: Path) -> None:
        size = "max_iter" if kind.startswith("Hist") else "n_estimators"
        plain = {size: 8, "max_depth": 4, "random_state": 0}
        model = getattr(import_module("sklearn.ensemble"), kind)(**plain | options).fit(X, y)
        if to == "onnx":
            made = import_module("skl2onnx").to_onnx(model, X[:1].astype(np.float32))
            path.write_bytes(made.SerializeToString())
        else:
            path.write_bytes(pickle.dumps(model))

    return Model(task, data, to, fit, named=to != "onnx" and not kind.startswith("Extra"))


def large_spread(task: str, data: str, norm: int | str, budget: float) -> Model:
    def fit(X: Any, y: Any, path: Path) -> None:
        attacker = {"norm": norm, "budget": budget, "scale": deviations(X)}
        train_large_spread(task, X, y, attacker, path)

    return Model(task, data, "json", fit)


lightgbm, xgboost, catboost = (partial(booster, kind) for kind in BOOSTERS)
MODELS = {
    "lightgbm": lightgbm(BINARY, "plain", "txt"),
    "lightgbm-missing": lightgbm(BINARY, "missing", "txt", num_leaves=12),
    "lightgbm-categories": lightgbm(BINARY, "categories", "txt"),
    "lightgbm-multi": lightgbm(MULTI, "missing", "txt", n_estimators=5),
    "lightgbm-multi-categories": lightgbm(MULTI, "categories", "txt", n_estimators=4),
    "lightgbm-regression": lightgbm(REGRESSION, "categories", "txt"),
    "lightgbm-dart": lightgbm(BINARY, "plain", "txt", boosting_type="dart"),
    "xgboost": xgboost(BINARY, "plain", "json"),
    "xgboost-missing": xgboost(BINARY, "missing", "ubj"),
    "xgboost-categories": xgboost(BINARY, "categories", "json"),
    "xgboost-multi": xgboost(MULTI, "missing", "ubj", n_estimators=4),
    "xgboost-multi-categories": xgboost(MULTI, "categories", "json", n_estimators=3),
    "xgboost-regression": xgboost(REGRESSION, "missing", "json"),
    "catboost": catboost(BINARY, "plain", "cbm"),
    "catboost-missing": catboost(BINARY, "missing", "json", grow_policy="Lossguide"),
    "catboost-texts": catboost(BINARY, "texts", "json"),
    "catboost-multi": catboost(MULTI, "missing", "cbm", iterations=5),
    "catboost-regression": catboost(REGRESSION, "plain", "json"),
    "forest": forest("RandomForestClassifier", BINARY, min_samples_leaf=5),
    "forest-multi": forest("RandomForestClassifier", MULTI, max_depth=3),
    "extra": forest("ExtraTreesClassifier", BINARY),
    "gradient": forest("GradientBoostingClassifier", BINARY, max_depth=3),
    "gradient-regression": forest("GradientBoostingRegressor", REGRESSION, max_depth=3),
    "hist": forest("HistGradientBoostingClassifier", BINARY, "categories"),
    "hist-multi": forest("HistGradientBoostingClassifier", MULTI, "missing", max_iter=4),
    "onnx-forest": forest("RandomForestClassifier", BINARY, to="onnx"),
    "onnx-multi": forest("GradientBoostingClassifier", MULTI, to="onnx", n_estimators=4),
    "onnx-catboost": catboost(BINARY, "missing", "onnx"),
    "spread-inf": large_spread(BINARY, "plain", "inf", 0.05),
    "spread-multi": large_spread(MULTI, "missing", "inf", 0.03),
    "spread-l2": large_spread(BINARY, "categories", 2, 0.05),
    "spread-l0": large_spread(BINARY, "plain", 0, 2),
    "spread-regression": large_spread(REGRESSION, "plain", 1, 0.05),
}
OWN_ATTACKERS = {"spread-inf": ("inf", 0.05), "spread-multi": ("inf", 0.03)}
OWN_ATTACKERS |= {"spread-l2": (2, 0.05), "spread-l0": (0, 2)}


def library_object(path: Path) -> Any:
    """The model in a file as its own library reads it; None for other files."""
    library = path.stem.split("-")[0]
    if path.suffix == ".pickle":
        return pickle.loads(path.read_bytes())
    if path.suffix == ".onnx":
        return import_module("onnx").load(path)
    if library == "catboost":
        return import_module(library).CatBoost().load_model(str(path), format=path.suffix[1:])
    if library in ("lightgbm", "xgboost"):
        return import_module(library).Booster(model_file=path)
    return None


# ── attackers ────────────────────────────────────────────────────────────────────────────────


def deviations(X: pd.DataFrame) -> dict[str, float]:
    """The standard deviations of the numbers, to three digits."""
    return {name: float(f"{np.nanstd(X[name]):.3g}") for name in NUMBERS}


def budgets(attacker: Any) -> list[float]:
    return [1, 2, 3] if attacker.norm == 0 else [attacker.budget * x for x in (0.25, 0.5, 1.0, 2.0)]


def attackers(X: pd.DataFrame, few: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Options of attackers by what is special about them; per-row bounds are for `few`."""
    unit = deviations(X)
    range_of = {name: (float(X[name].min()), float(X[name].max())) for name in NUMBERS}
    moving = {"bytes": (0, unit["bytes"]), "wide": (unit["wide"], 2 * unit["wide"]), "ratio": 0.3}
    steps = {"bytes": 1, "count": 1, "tenths": "1/10"}
    group = unit | dict.fromkeys(GROUP, 2.0)
    lower = {f: (few[f] - unit[f] / 3).fillna(-np.inf) for f in NUMBERS}
    upper = {f: (few[f] + unit[f] / 4).fillna(np.inf) for f in NUMBERS}
    kinds: dict[str, dict[str, Any]] = {
        "inf": {"norm": "inf", "budget": 0.1, "scale": unit},
        "inf-unscaled": {"norm": "inf", "budget": 0.05},
        "l1": {"norm": 1, "budget": 0.3, "scale": unit},
        "l2": {"norm": 2, "budget": 0.2, "scale": unit},
        "l0": {"norm": 0, "budget": 1},
        "l0-two": {"norm": 0, "budget": 2, "features": ["ratio", "bytes", "tenths", "wide", "own"]},
        "subset": {"norm": "inf", "budget": 0.4, "scale": unit, "features": ["ratio", "bytes"]},
        "scales": {"norm": 1, "budget": 0.4, "scale": [unit.get(name, 2.5) for name in NAMES]},
        "bounds": {"norm": "inf", "budget": 0.3, "scale": unit, "bounds": range_of},
        "row-bounds": {"norm": 0, "budget": 2}
        | {"bounds": {f: (lower[f], upper[f]) for f in NUMBERS}},
        "directions": {"norm": 1, "budget": 0.5, "scale": moving, "features": list(moving)},
        "steps": {"norm": 1, "budget": 0.5, "scale": unit, "step": steps, "features": list(steps)},
        "one-hot": {"norm": 1, "budget": 0.6, "scale": group, "one_hot": [GROUP]},
        "all": {"norm": 2, "budget": 0.6, "scale": group | moving, "bounds": range_of}
        | {"step": steps, "one_hot": [GROUP]},
    }
    if X["colour"].dtype.kind != "f":
        some = {"colour": ["a", "b", "e"], "grade": ["low", "high"]}
        costs = {"colour": 3.0, "grade": 8.0}
        kinds["categories"] = {"norm": 1, "budget": 0.4, "scale": unit | costs}
        kinds["some-categories"] = {"norm": "inf", "budget": 0.35, "scale": unit | costs}
        kinds["some-categories"]["categories"] = some
        kinds["all"] |= {"scale": group | moving | costs, "categories": some}
    return kinds


def by_position(options: Any) -> Any:
    """The options with positions in place of names of features."""
    if isinstance(options, dict):
        return {by_position(key): by_position(value) for key, value in options.items()}
    if isinstance(options, (list, tuple)):
        return type(options)(map(by_position, options))
    return NAMES.index(options) if isinstance(options, str) and options in NAMES else options


# ── cases ────────────────────────────────────────────────────────────────────────────────────

QUERIES = ["verify", "attack", "radius"]
SINGLE = ["output_range", "stability", "high_confidence"]
MORE = ["exact_margin", "robustness_curve", "explain", "minimal"]


@cache
def loaded(path: Path) -> Any:
    return load(library_object(path) if path.suffix == ".pickle" else path)


class Subject:
    """A model with its data and attackers; each method runs one case."""

    def __init__(self, folder: Path, out: Path, name: str) -> None:
        self.folder, self.out, self.name, self.spec = folder, out, name, MODELS[name]
        self.path = folder / f"{name}.{self.spec.suffix}"
        self.data = f"{self.spec.data}-{self.spec.task}"
        frame = pd.read_pickle(folder / f"{self.spec.data}.pickle")
        few = frame[FEW].reset_index(drop=True)
        self.y = np.load(folder / f"{self.spec.task}.npy")
        self.kinds = attackers(frame, few)
        self.X, self.few = frame, few
        if not self.spec.named:
            self.X, self.few = frame.to_numpy(), few.to_numpy()
            self.kinds = {kind: by_position(options) for kind, options in self.kinds.items()}
        self.engine = "auto" if name.startswith("spread") else "search"

    def asked(self, kind: str) -> tuple[Any, ...]:
        return loaded(self.path), self.few, self.y[FEW], Attacker(**self.kinds[kind])

    def load(self) -> Any:
        """The model from its file, and from its library's object."""
        model, other = loaded(self.path), library_object(self.path)
        found = {"file": describe(model, self.X, self.out / "model.json")}
        if other is not None:
            rows = self.few
            found["object"] = outcome(lambda: describe(load(other), rows, self.out / "model.json"))
        return found

    def all_rows(self) -> Any:
        query = "output_range" if self.spec.task == REGRESSION else "verify"
        return ask(query, loaded(self.path), self.X, self.y, Attacker(**self.kinds["inf"]))

    def python(self, kind: str, queries: list[str]) -> Any:
        asked, engine = self.asked(kind), {"engine": self.engine}
        return {query: outcome(partial(ask, query, *asked, **engine)) for query in queries}

    def sparse(self, kind: str) -> Any:
        model, X, y, attacker = self.asked(kind)
        X = import_module("scipy.sparse").csr_matrix(X.to_numpy())
        return {query: outcome(partial(ask, query, model, X, y, attacker)) for query in QUERIES}

    def large_spread(self, **options: Any) -> Any:
        norm, budget = OWN_ATTACKERS[self.name]
        attacker = Attacker(norm, budget, scale=deviations(self.X))
        return ask("verify", loaded(self.path), self.X, self.y, attacker, **options)

    def dask(self, query: str, kind: str) -> Any:
        return ask_dask(query, *self.asked(kind))

    def report(self, kinds: list[str]) -> Any:
        model, X, y, _ = self.asked(kinds[0])
        return report(model, X, y, [Attacker(**self.kinds[kind]) for kind in kinds])

    def proof(self, kind: str) -> Any:
        """A new proof by the stored checker, and the stored proof by the current checker."""
        new, old = self.out / "proof", self.folder / "proofs" / f"{self.name}-{kind}"
        write_proof(*self.asked(kind), new)
        if not old.exists():
            shutil.copy(new, old)
        files = [self.folder / "json" / f"{self.name}.json", self.folder / f"{self.data}-few.csv"]
        return {
            "sha256": sha256(new.read_bytes()).hexdigest(),
            "by the old checker": check(self.folder / "carvegbm_check.py", [new, *files]),
            "old, by the new checker": check(CHECKER, [old, *files]),
        }

    def command(self, line: str, form: str, kind: str) -> Any:
        """A command about the rows in a file; without `form`, about the model alone."""
        verb, *options = line.replace("OUT", str(self.out)).split()
        is_pickle = self.path.suffix == ".pickle"
        given = [verb, f"json/{self.name}.json" if is_pickle else self.path.name]
        if form:
            threat = self.folder / "attackers" / f"{self.name}-{kind}.json"
            threat.write_text(json.dumps(self.kinds[kind]))
            given += [
                f"{self.data}{'-X' if form == 'npy' else ''}.{form}",
                "--attacker",
                str(threat),
            ]
            given += ["--threads", str(LIMITS["threads"]), "--timeout", str(LIMITS["timeout"])]
            given += [] if verb == "explain" or "--format" in options else ["--rows", "40"]
        code, printed = command(self.folder, given + options)
        document = json.loads(printed) if "--json" in options and printed else None
        return {"code": code, "json": document, "files": files_in(self.out)}


def cases(folder: Path, out: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All cases by name; the options rotate, so that all meet each other somewhere."""
    for at, (name, spec) in enumerate(MODELS.items()):
        it = Subject(folder, out, name)
        kinds, is_regression = list(it.kinds), spec.task == REGRESSION
        yield f"load/{name}", it.load
        yield f"all-rows/{name}", it.all_rows
        votes = name.startswith(("forest", "extra", "onnx-forest"))  # a score for each class
        single = [] if votes or spec.task == MULTI else SINGLE[: 2 if is_regression else 3]
        for place, kind in enumerate(kinds):
            more = MORE + single
            queries = single if is_regression else [*QUERIES, more[(at + place) % len(more)]]
            yield f"python/{name}/{kind}", partial(it.python, kind, queries)
        for place in (at, at + 3, at + 7, at + 10):
            some = SINGLE[:1] if is_regression else [*QUERIES, "robustness_curve"]
            query, kind = some[place % len(some)], kinds[place % len(kinds)]
            yield f"dask/{name}/{query}/{kind}", partial(it.dask, query, kind)
        yield f"command/{name}/about", partial(it.command, ABOUT[at % 3], "", "")
        if is_regression:
            continue
        kinds.remove("row-bounds")  # which no file can hold
        forms = FORMATS if spec.data in ("plain", "missing") else FORMATS[:2]
        for place in (at, at + 3, at + 7):
            kind = kinds[place % len(kinds)]
            yield f"proof/{name}/{kind}", partial(it.proof, kind)
            line, form = COMMANDS[place % len(COMMANDS)], forms[place % len(forms)]
            title = f"command/{name}/{kind}/{line.replace(' ', '').replace('OUT/', '')}/{form}"
            yield title, partial(it.command, line, form, kind)
        if at % 3 == 0:
            yield f"report/{name}", partial(it.report, ["inf", kinds[1 + at % 10]])
        if name in ("lightgbm", "lightgbm-multi", "xgboost-missing", "forest"):
            for kind in ("inf", "l1", "l0-two", "one-hot", "steps"):
                yield f"sparse/{name}/{kind}", partial(it.sparse, kind)
        if name in OWN_ATTACKERS:
            fixed = {"engine": "large-spread"}
            yield f"large-spread/{name}", partial(it.large_spread, **fixed)
            yield f"large-spread/{name}/basic", partial(it.large_spread, method="basic", **fixed)
            yield f"large-spread/{name}/grid", partial(it.large_spread, grid=4, **fixed)
            yield f"large-spread/{name}/search", partial(it.large_spread, engine="search")


def check(checker: Path, files: Iterable[Path]) -> Any:
    """The exit code and the findings of a proof checker."""
    spec = importlib.util.spec_from_file_location("checker", checker)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["checker"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = module.main([*map(str, files), "--json"])
    return {"code": code, "findings": json.loads(printed.getvalue() or "null")}


def files_in(folder: Path) -> dict[str, Any]:
    """The content of all result files in a folder as plain values."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.*")):
        if path.suffix in (".csv", ".parquet"):
            table = (pd.read_csv if path.suffix == ".csv" else pd.read_parquet)(path)
            found[path.name] = table.to_dict("list")
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[path.name] = {key: arrays[key] for key in arrays.files}
        elif path.suffix == ".json":
            found[path.name] = json.loads(path.read_text())
    return found


# ── record and compare ───────────────────────────────────────────────────────────────────────


def outcome(run: Callable[[], Any]) -> Any:
    """The answer as plain values, or the kind of error."""
    try:
        return plain(run())
    except Refused as error:
        return {"refused": type(error).__name__}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def plain(value: Any) -> Any:
    """The value as JSON holds it, without fields of times and versions."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if key not in UNTIMED}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


def differences(old: Any, new: Any, field: str = "") -> Iterator[tuple[str, str, str]]:
    """(field, old value, new value) of all that differs; of a list the first row that does."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            yield from differences(old.get(key, "absent"), new.get(key, "absent"), f"{field}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        rows = [row for row, (a, b) in enumerate(zip(old, new, strict=True)) if text(a) != text(b)]
        if rows:
            where = f"{field} row {rows[0]} ({len(rows)} of {len(old)} rows)"
            yield next(differences(old[rows[0]], new[rows[0]], where))
    elif text(old) != text(new):
        yield field, text(old), text(new)


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def answers(folder: Path, pattern: str = "*") -> Iterator[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as parent:
        out = Path(parent, "out")
        for name, run in cases(folder, out):
            if fnmatch.fnmatch(name, pattern):
                out.mkdir()
                yield name, outcome(run)
                shutil.rmtree(out)


def record(folder: Path) -> None:
    for name in ("json", "proofs", "attackers"):
        (folder / name).mkdir(parents=True)
    shutil.copy(CHECKER, folder)
    frames, labels = make_frames()
    for data, X in frames.items():
        X.to_pickle(folder / f"{data}.pickle")
        for task, y in labels.items():
            np.save(folder / f"{task}.npy", y)
            write_files(X, y, str(folder / f"{data}-{task}"))
    for name, spec in MODELS.items():
        X, path = frames[spec.data], folder / f"{name}.{spec.suffix}"
        X = X if spec.named else X.to_numpy()
        spec.fit(X, labels[spec.task], path)
        describe(loaded(path), X, folder / "json" / f"{name}.json")
    found = dict(answers(folder))
    (folder / "results.json").write_text(json.dumps(found, indent=0))
    print(f"{len(found)} cases recorded")


def compare(folder: Path, pattern: str, expected: list[str]) -> bool:
    """Run the cases again and print what differs; return whether all are equal."""
    recorded = json.loads((folder / "results.json").read_text())
    count = different = 0
    for name, new in answers(folder, pattern):
        found = [
            f"{name}: {field[1:]}: {old[:120]} -> {now[:120]}"
            for field, old, now in differences(recorded.get(name, "absent"), new)
            if not any(fnmatch.fnmatch(f"{name} {field[1:]}", known) for known in expected)
        ]
        count, different = count + 1, different + bool(found)
        print(*found, sep="\n", end="\n" * bool(found), flush=True)
    print(f"{count} cases, {count - different} equal, {different} different")
    return not different


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cases to compare")
    parser.add_argument("--except", dest="expected", metavar="FILE", help="expected differences")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    folder, begun = given.folder.resolve(), time.monotonic()
    is_equal = True
    if given.what == "record":
        record(folder)
    else:
        lines = Path(given.expected).read_text().splitlines() if given.expected else []
        known = [line.split("#")[0].strip() for line in lines]
        is_equal = compare(folder, given.only, [pattern for pattern in known if pattern])
    print(f"{time.monotonic() - begun:.0f} s")
    return int(not is_equal)


if __name__ == "__main__":
    sys.exit(main())
