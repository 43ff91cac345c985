"""Training large-spread ensembles with LightGBM as it comes from PyPI.

In the order of the work: `thresholds` chooses where trees may split, `lightgbm_c` is the table of
codes LightGBM trains on, `rounds` grows the trees (`grown`), `closing` closes thresholds after
each, `watching` evaluates, `boosting` joins all of that, `model_text` writes the Booster, and
`estimators` is what users see.
"""
