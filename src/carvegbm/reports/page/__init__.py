"""The page of a report: one self-contained HTML file, made of the document and of nothing else.

Comes in: the document, plain values. Goes out: `html`, the text of the file. Every section
lives in `sections`; what they share: words, numbers, tables, figures.
"""

from carvegbm.reports.page.page import html

__all__ = ["html"]
