"""CatBoost models; see `model` for what is read and how."""

from carvegbm.readers.catboost.binary import is_binary
from carvegbm.readers.catboost.model import (
    from_binary,
    from_document,
    from_estimator,
    is_document,
)

__all__ = ["from_binary", "from_document", "from_estimator", "is_binary", "is_document"]
