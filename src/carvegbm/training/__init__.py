"""Training large-spread ensembles with LightGBM as it comes from PyPI.

In the order of the work:

    inputs, data, evaluation         what a user gives, checked: rows, labels, what to watch
    parameters, parameterised        LightGBM's parameters, and those of the estimators
    growing                          trees, one after the other, and the model they make
    refitting                        new leaf scores for fixed trees
    certified                        robust models: quiet thresholds, refits, a choice of trials
    estimator, estimators            what users see
    tuning                           a choice of parameters by trials
    trial, report, reporting         a model that was tried; what users read of all, and meanwhile
"""
