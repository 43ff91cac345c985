"""A script: what is read against the libraries of CatBoost and ONNX, on many models.

    python tests/readers/library_campaign.py --models 100

prints per setting how many models agreed with their library bit for bit on all rows, and which did
not. `test_catboost.py` and `test_onnx.py` run a small sample of the same.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=100, help="per setting")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--family", choices=["catboost", "onnx"], action="append")
    given = parser.parse_args()
    failed = 0
    for family in given.family or ["catboost", "onnx"]:
        models = importlib.import_module(f"readers.{family}_models")
        for setting in models.ALL:
            rows = wrong = 0
            for seed in range(given.first, given.first + given.models):
                try:
                    rows += models.check(setting, seed)
                except AssertionError as error:
                    wrong += 1
                    print(f"{family}, {setting}, seed {seed}: {error}", flush=True)
            failed += wrong
            agreed = f"{given.models - wrong} of {given.models} models agree"
            print(f"{family}, {setting}: {agreed}, on {rows} rows", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
