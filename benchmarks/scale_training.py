"""A part of scale.py: trees of a cluster beside those of one process, and the time of a fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import carvegbm as cg
from scale_answers import load_images
from scale_setup import (
    BUDGET,
    Synthetic,
    dask_client,
    heading,
    in_turn,
    line,
    persisted,
    shown,
)

WORKERS = (1, 2, 4)
SHARES = (0.05, 0.31, 0.01, 0.0, 0.13, 0.2, 0.26, 0.04)
"""Of the rows, per partition; the first one, with rows of one class, has a worker to itself."""
BUDGETS = {"inf": 0.01, 1: 0.1, 0: 1}
RULES = {
    "default": {},
    "min_child_samples=1, min_child_weight=0, min_split_gain=1e-6": {
        "min_child_samples": 1,
        "min_child_weight": 0,
        "min_split_gain": 1e-6,
    },
}
"""The second leaves no feature without use in a leaf, but where it gains next to nothing."""


def training(options: argparse.Namespace) -> None:
    """Which trees are equal, and what a fit takes."""
    kinds = ["LargeSpread", *(["Robust"] if options.robust else [])]
    heading(
        f"Trees of a cluster that are equal to those of one process, {options.trees} rounds; "
        "uneven partitions, one of them empty, and, of several workers, one with rows of one class",
        "classifier",
        "data",
        "norm",
        "parameters",
        *(f"{count} worker{'s' * (count > 1)}" for count in WORKERS),
    )
    for kind in kinds:
        for title, X, y in data_sets(options):
            for norm in BUDGETS:
                for rule, parameters in RULES.items():
                    settings = {"norm": norm, "budget": BUDGETS[norm], **parameters}
                    settings |= {"n_estimators": options.trees, "random_state": 0}
                    counts = equal_trees(kind, settings, X, y)
                    line(f"`{kind}Classifier`", title, norm, rule, *counts)
    times(options, kinds)


def data_sets(options: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """Two classes and ten; the first partition gets rows of one class only."""
    from sklearn.datasets import load_digits

    images = load_images(options)
    found = []
    if images is not None:
        split = images.split(seed=0)
        found.append(("Fashion-MNIST 0 vs 3", split.X_train, split.y_train))
    digits = load_digits()
    found.append(("digits, ten classes", digits.data / 16, digits.target))
    for title, X, y in found:
        X, y = X[: options.image_rows], y[: options.image_rows]
        first = np.flatnonzero(y == y[0])[: int(SHARES[0] * len(y))]
        order = [*first, *np.setdiff1d(np.arange(len(y)), first)]
        yield f"{title}, {len(y):,} × {X.shape[1]}", X[order], y[order]


def equal_trees(kind: str, settings: dict[str, Any], X: Any, y: Any) -> list[str]:
    """Per number of workers, how many trees are equal to the last digit."""
    from carvegbm import dask as cgd

    known = trees(getattr(cg, f"{kind}Classifier")(**settings, n_jobs=1).fit(X, y))
    found = []
    for workers in WORKERS:
        with dask_client(workers) as client:
            model = getattr(cgd, f"Dask{kind}Classifier")(client=client, **settings)
            own = trees(fit_on(client, model, *shared_out(client, X, y)))
        same = sum(one == other for one, other in zip(known, own, strict=False))
        found.append(f"{same} of {max(len(known), len(own))}")
    return found


def fit_on(client: Any, model: Any, X: Any, y: Any) -> Any:
    with client.as_current():  # of several clusters, none is the default one
        return model.fit(X, y)


def trees(model: Any) -> list[str]:
    """Every tree as LightGBM writes it."""
    text = model.booster_.model_to_string().split("\nend of trees")[0]
    return text.split("\nTree=")[1:]


def shared_out(client: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Dask Arrays whose partitions are already where they belong."""
    import dask
    import dask.array as da

    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    ends = [round(share * len(X)) for share in np.cumsum(SHARES)]
    columns: tuple[list[Any], list[Any]] = ([], [])
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        alone = number == 0 or len(workers) == 1
        owner = workers[0 if alone else 1 + number % (len(workers) - 1)]
        for rows, parts in zip((X[start:end], y[start:end]), columns, strict=True):
            there = client.scatter(rows, workers=[owner], hash=False)
            parts.append(da.from_delayed(dask.delayed(there), rows.shape, dtype=rows.dtype))
    return da.concatenate(columns[0]), da.concatenate(columns[1])


def times(options: argparse.Namespace, kinds: list[str]) -> None:
    """A fit with one and two workers over a plain one with as many threads."""
    from carvegbm import dask as cgd

    data = Synthetic(options.training_rows, options.partition)
    X, y = data.all()
    settings = {"norm": "inf", "budget": BUDGET, "n_estimators": options.trees, "random_state": 0}
    heading(
        f"Time of a fit: {data.rows:,} × {X.shape[1]} rows in {len(data)} partitions, "
        f"{options.trees} rounds; rows in the workers' memory, workers of one thread",
        "classifier",
        "plain, one thread",
        "one worker",
        "over plain",
        "plain, two threads",
        "two workers",
        "over plain",
        "two workers over one",
    )
    with dask_client(1) as one, dask_client(2) as two:
        held = [(client, *persisted(client, data)) for client in (one, two)]
        for kind in kinds:
            plain = getattr(cg, f"{kind}Classifier")
            spread = getattr(cgd, f"Dask{kind}Classifier")
            calls = [partial(plain(**settings, n_jobs=n).fit, X, y) for n in (1, 2)]
            calls += [
                partial(fit_on, client, spread(client=client, **settings), dX, dy)
                for client, dX, dy in held
            ]
            thread, threads, worker, workers = in_turn(calls, options.repeats)
            line(
                f"`{kind}Classifier`",
                shown(thread),
                shown(worker),
                f"{worker / thread:.2f}",
                shown(threads),
                shown(workers),
                f"{workers / threads:.2f}",
                f"{worker / workers:.2f} ×",
            )
