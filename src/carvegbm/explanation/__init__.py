"""Explain one row: its radius (`query`), its witness and trees (`result`), as text (`text`)."""

from carvegbm.explanation.query import explain
from carvegbm.explanation.result import ChangedFeature, ChangedTree, CrossedSplit, Explanation

__all__ = ["ChangedFeature", "ChangedTree", "CrossedSplit", "Explanation", "explain"]
