"""The datasets that scikit-learn brings."""

from __future__ import annotations

from carvegbm.datasets.catalogue import Entry
from carvegbm.datasets.preparing import Published

__all__ = ["built_in"]


def built_in(entry: Entry) -> Published:
    """All rows of the dataset, as scikit-learn has them."""
    from sklearn import datasets

    load = {"breast-cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
    bunch = load[entry.name]()
    names = None if entry.image_shape else tuple(map(str, bunch.feature_names))
    return Published(bunch.data, bunch.target, "comes with scikit-learn", names)
