"""The numbers the paper reports, as data: its Tables 1, 2 and 3 and what its text says of Figure 2.

Everything here is copied from the paper as printed; nothing is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DATASETS", "MEASURES", "SPEED_UP", "DatasetRow", "Measures", "Task"]

Task = tuple[str, str, float]
"""Data set, norm ("inf", "0", "1") and budget: a row of Table 2 and of Table 3."""


@dataclass(frozen=True)
class DatasetRow:
    """A row of Table 1; `shares` are the classes' shares in percent."""

    name: str
    instances: int
    features: int
    shares: tuple[int, int]


@dataclass(frozen=True)
class Measures:
    """One row of Table 2 and of Table 3.

    Attributes
    ----------
    plain_accuracy, accuracy : float
        Accuracy of the plain GBDT and of the large-spread ensemble.
    plain_robustness : float or None
        Middle of the proven interval; None where the paper's baseline did not scale.
    plain_uncertainty : float
        Half-width of that interval (the paper's ±).
    robustness : float
        Robustness of the large-spread ensemble.
    baseline_seconds, seconds : int
        Verification time of 500 rows: baseline (SILVA for L∞, MILP for L0 and L1), CARVE-GBM.
    """

    plain_accuracy: float
    accuracy: float
    plain_robustness: float | None
    plain_uncertainty: float
    robustness: float
    baseline_seconds: int
    seconds: int


DATASETS: dict[str, DatasetRow] = {
    "fmnist": DatasetRow("FMNIST", 13_866, 784, (50, 50)),
    "mnist": DatasetRow("MNIST", 14_000, 784, (51, 49)),
    "webspam": DatasetRow("Webspam", 350_000, 254, (70, 30)),
}

MEASURES: dict[Task, Measures] = {
    ("fmnist", "inf", 0.005): Measures(0.97, 0.97, 0.93, 0.01, 0.96, 172, 12),
    ("fmnist", "inf", 0.01): Measures(0.97, 0.97, 0.81, 0.12, 0.89, 290, 3),
    ("fmnist", "inf", 0.015): Measures(0.97, 0.97, 0.68, 0.21, 0.88, 3448, 4),
    ("fmnist", "0", 1): Measures(0.97, 0.96, 0.94, 0.0, 0.96, 23, 1),
    ("fmnist", "0", 2): Measures(0.97, 0.96, 0.90, 0.0, 0.90, 23, 1),
    ("fmnist", "0", 3): Measures(0.97, 0.96, 0.86, 0.0, 0.85, 23, 1),
    ("fmnist", "1", 0.05): Measures(0.97, 0.97, 0.87, 0.0, 0.89, 74, 8),
    ("fmnist", "1", 0.1): Measures(0.97, 0.96, 0.81, 0.0, 0.83, 37, 4),
    ("fmnist", "1", 0.15): Measures(0.97, 0.96, 0.72, 0.0, 0.66, 39, 4),
    ("mnist", "inf", 0.01): Measures(0.99, 0.99, 0.98, 0.0, 0.99, 1, 13),
    ("mnist", "inf", 0.02): Measures(0.99, 0.99, 0.93, 0.02, 0.98, 4, 4),
    ("mnist", "inf", 0.03): Measures(0.99, 0.99, 0.85, 0.10, 0.97, 3, 3),
    ("mnist", "0", 1): Measures(0.99, 0.99, 0.77, 0.21, 0.99, 23, 1),
    ("mnist", "0", 2): Measures(0.99, 0.99, 0.67, 0.21, 0.98, 23, 1),
    ("mnist", "0", 3): Measures(0.99, 0.99, 0.44, 0.21, 0.96, 23, 1),
    ("mnist", "1", 0.05): Measures(0.99, 0.99, 0.87, 0.05, 0.99, 157, 8),
    ("mnist", "1", 0.1): Measures(0.99, 0.99, 0.86, 0.04, 0.96, 42, 3),
    ("mnist", "1", 0.15): Measures(0.99, 0.99, 0.84, 0.04, 0.84, 46, 4),
    ("webspam", "inf", 0.0004): Measures(0.99, 0.99, 0.90, 0.08, 0.97, 216, 5),
    ("webspam", "inf", 0.0006): Measures(0.99, 0.99, 0.84, 0.13, 0.97, 989, 4),
    ("webspam", "inf", 0.0008): Measures(0.99, 0.99, 0.79, 0.18, 0.96, 2142, 4),
    ("webspam", "0", 1): Measures(0.99, 0.96, None, 0.0, 0.91, 902, 2),
    ("webspam", "0", 2): Measures(0.99, 0.96, None, 0.0, 0.86, 902, 2),
    ("webspam", "0", 3): Measures(0.99, 0.96, None, 0.0, 0.79, 902, 2),
    ("webspam", "1", 0.002): Measures(0.99, 0.97, None, 0.0, 0.95, 278, 5),
    ("webspam", "1", 0.003): Measures(0.99, 0.96, None, 0.0, 0.93, 179, 4),
    ("webspam", "1", 0.004): Measures(0.99, 0.96, None, 0.0, 0.89, 424, 5),
}

SPEED_UP: tuple[int, int] = (10, 400)
"""The range of speed-ups the paper's text reads off its figure: "from around 10 times to more than
400 times for the largest ensembles of 125 trees"."""
