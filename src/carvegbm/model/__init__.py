"""Additive ensembles of regression trees.

`ensemble` holds the immutable `Ensemble`, `nodes` the layout of its nodes and the checks of its
arrays, `categories` its categorical features, `rows` the rows it is applied to, `decision` the step
from raw scores to labels, `core` its copy in C++ and `json` its file format.
"""
