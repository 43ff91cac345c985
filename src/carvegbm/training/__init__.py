"""Training of robust and of large-spread ensembles.

- estimators, base, params, validation, categorical: the scikit-learn interface
- dataset, spec: labelled rows; the interface of the training methods
- binning: candidate thresholds, codes, crowding
- model: trees as arrays, ensembles, LightGBM's text
- evaluation: metrics per round, early stopping, proofs
- large_spread: boosting with LightGBM on thresholds that stay open
- robust: boosting against the attacker
- leaf_refit, robust_refit, score_writer: new leaf scores for fixed trees
- search, tuning, report: trials, and the choice among them
"""
