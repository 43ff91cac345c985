"""Reports: a model, rows and attackers on one page that people read.

asking       what is asked of the engines, and when the work is cut short
distances    what radii say of all rows together
weakness     what witnesses change
crowds       thresholds that rows crowd at
units        what a budget is beside what features hold
shares       shares of all rows, from a sample
proved       proofs of the verdicts, written and checked
retraining   what robust training would give, measured
document     all of it as plain values
page/        the document as a page
given        what a user gave, checked
making       the function that users call
result       what it gives back
"""

from carvegbm.reports.making import report
from carvegbm.reports.result import Report

__all__ = ["Report", "report"]
