"""Formulas as MathML, which browsers draw by themselves.

Comes in: the TeX of a formula. Goes out: MathML, by the converter that docutils brings. No script,
no font and no network is needed to read a formula, and nothing beyond Sphinx to build the site.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


# Fences without \\left and \\right would grow to the height of the whole formula, and | have the
# room of a relation around it.
_FENCE = re.compile(r'<mo(?: class="\w+"| stretchy="false")?>([‖{}|])</mo>')
_TIGHT = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'


def _mathml(node: Any, as_block: bool) -> str:
    """The formula; one that the converter does not understand is a warning, and shown as TeX."""
    tex = node.astext()
    try:
        return _FENCE.sub(_TIGHT, tex2mathml(tex, as_block=as_block))
    except MathError as error:
        LOGGER.warning("formula %r: %s", tex, error, location=node)
        return f"<code>{html.escape(tex)}</code>"


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
