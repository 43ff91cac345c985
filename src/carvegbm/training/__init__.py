"""Training: robust ensembles, and large-spread ones with LightGBM as it comes from PyPI.

In the order of the work:

    inputs, columns, data            what a user gives, checked: rows, categories, labels
    evaluation                       what to watch
    parameters, parameterised        LightGBM's parameters, and how estimators hold them
    growing                          trees, one after the other, and the model they make
    refitting                        new leaf scores for fixed trees
    certified                        large-spread and robust: quiet thresholds, refits, a choice
    robust                           any ensemble, grown against the attacker
    estimator, classifier, regressor what estimators share: the fit, the fitted model, its answers
    large_spread, estimators         large-spread training as they do it; the four that users see
    tuning                           a choice of parameters by scikit-learn's searches
    trial, report, reporting         a model that was tried; what users read of all, and meanwhile
"""
