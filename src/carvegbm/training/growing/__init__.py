"""From rows to a grown ensemble, with LightGBM as it comes from PyPI.

In the order of the work: `thresholds` chooses where trees may split (`categories`: what they may
name), `lightgbm_c` is the table of codes that LightGBM trains on (`bins`: its bins), `rounds` grows
the trees (`grown`, `sets`), `closing` closes thresholds after each, `watching` evaluates,
`agreement` checks that LightGBM saw the rows it was given, `boosting` joins all of that. `model` is
what comes out: an ensemble, and LightGBM's text of it (`model_text`).
"""
