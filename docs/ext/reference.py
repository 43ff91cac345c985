"""The reference: which members of a class are its own, which names mean what.

Comes in: what autodoc finds. Goes out: members that carvegbm defines (those that estimators inherit
from scikit-learn are described there), links from names of carvegbm wherever they stand, and other
names of files where two would differ in case only.
"""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

from sphinx.application import Sphinx

PACKAGES = ("carvegbm", "carvegbm.dask", "carvegbm.spark")
"""Whose `__all__` is public."""


def file_names() -> dict[str, str]:
    """Other file names for classes that differ from a function in case only: disks may not."""
    names = [f"{package}.{name}" for package in PACKAGES for name in _names(package)]
    count = Counter(name.lower() for name in names)
    return {
        name: f"{name}-class"
        for name in names
        if count[name.lower()] > 1 and name.rpartition(".")[2][0].isupper()
    }


def _names(package: str) -> list[str]:
    if package == "carvegbm.spark":  # which may not be installed; it has no such names
        return []
    return list(importlib.import_module(package).__all__)


def _skip(_app: Sphinx, _what: str, _name: str, member: Any, skip: bool, _options: Any) -> Any:
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    home = getattr(function, "__module__", None) or "carvegbm"
    return True if home.partition(".")[0] in ("sklearn", "builtins") else skip


def _find(app: Sphinx, env: Any, node: Any, shown: Any) -> Any:
    """`RobustClassifier` in a docstring of carvegbm.dask is carvegbm's."""
    name = node.get("reftarget", "")
    if node.get("refdomain") != "py" or name.partition(".")[0] not in _names("carvegbm"):
        return None
    whole = f"carvegbm.{name}"
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", whole, node, shown
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _find)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
