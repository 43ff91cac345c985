"""Models that stopped early and keep the iterations after the best one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def rows(seed: int = 0, n: int = 400, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Noisy rows, on which training overfits soon; exact in float32."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((n, 4)) * 64) / 64
    noisy = X[:, 0] + 0.25 * rng.normal(size=n)
    return X, np.clip(noisy * n_classes, 0, n_classes - 1).astype(int)


def xgboost_classifier(n_classes: int = 2, **parameters: Any) -> Any:
    """A fitted `XGBClassifier`, whose best iteration is neither the first nor the last."""
    import xgboost

    X, y = rows(n_classes=n_classes)
    model = xgboost.XGBClassifier(
        n_estimators=60,
        max_depth=3,
        learning_rate=0.3,
        early_stopping_rounds=5,
        n_jobs=1,
        **parameters,
    )
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], verbose=False)
    assert 0 < model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    return model


def saved(folder: Path, suffix: str = "json", **parameters: Any) -> tuple[Any, Path]:
    """The same and its file."""
    model = xgboost_classifier(**parameters)
    path = folder / f"early.{suffix}"
    model.save_model(path)
    return model, path
