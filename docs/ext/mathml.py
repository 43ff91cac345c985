"""Formulas as MathML, which browsers draw by themselves.

Comes in: the TeX of a formula. Goes out: MathML, by the converter that docutils brings. No script,
no font and no network is needed to read a formula, and nothing beyond Sphinx to build the site.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def _mathml(node: Any, as_block: bool) -> str:
    """The formula; one that the converter does not understand is a warning, and shown as TeX."""
    tex = node.astext()
    try:
        return str(tex2mathml(tex, as_block=as_block))
    except MathError as error:
        LOGGER.warning("formula %r: %s", tex, error, location=node)
        return f"<code>{nodes.Text(tex).astext()}</code>"


def _inline(self: Any, node: Any) -> None:
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(self: Any, node: Any) -> None:
    # In a box of its own, so that a long formula scrolls and the page does not.
    self.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
