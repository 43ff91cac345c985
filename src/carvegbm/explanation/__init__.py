"""Explain: one instance, its nearest witness, and what every tree has to do with it."""

from carvegbm.explanation.asking import explain
from carvegbm.explanation.result import ChangedFeature, ChangedTree, CrossedSplit, Explanation

__all__ = ["ChangedFeature", "ChangedTree", "CrossedSplit", "Explanation", "explain"]
