"""The estimators, as scikit-learn users know them.

Comes in: data as scikit-learn users have it. Goes out: predictions, and proofs about them against
the attacker the model was trained for. `Robust*` grow trees against the attacker; `LargeSpread*`
grow trees that can be checked at once, whatever their number.
"""

from __future__ import annotations

from carvegbm.errors import CarveError
from carvegbm.training.classifier import Classifier
from carvegbm.training.large_spread_estimator import LargeSpread
from carvegbm.training.regressor import Regressor
from carvegbm.training.robust.estimator import Robust

__all__ = ["LargeSpreadClassifier", "LargeSpreadRegressor", "RobustClassifier", "RobustRegressor"]


class LargeSpreadClassifier(LargeSpread, Classifier):
    """A gradient-boosted classifier whose robustness can be verified exactly and fast.

    Trees are grown by LightGBM. After every tree, thresholds too close to its own are closed to
    later trees, so that the ensemble is large-spread for the attacker: thresholds of one feature
    in two trees are more than 2 * budget * scale apart (norm 0: no feature is in two trees).

    Parameters
    ----------
    norm, budget, scale, features, bounds, step, categories, one_hot
        The attacker to verify against, see `carvegbm.Attacker`.
    n_estimators : int, default 100
        Rounds of boosting; a round grows one tree, or one per class for more than two classes.
    num_leaves, max_depth, learning_rate, min_child_samples, min_child_weight, min_split_gain, \
    subsample, subsample_freq, colsample_bytree, reg_alpha, reg_lambda, max_bin
        As in LightGBM. `max_bin` is the largest number of candidate thresholds per feature.
    objective : str, optional
        "binary" or "multiclass"; by default what y calls for.
    class_weight : dict or "balanced", optional
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Threads; all cores by default.
    verbose : int, default 0
        1: a progress bar on a terminal, a line per 50 rounds elsewhere.
    certified : bool, default False
        Train for robustness as well: thresholds that training rows crowd around are left out, and
        the leaf scores are refitted against the attacker. The first evaluation set serves as
        validation data; without one, a stratified fifth is split off.
    max_crowding : float or None, or a sequence of these, default (0.03, 0.06, 0.12, 0.25, None)
        Of certified training only, as `clean_loss`: without it, another value brings a warning.
        Certified training leaves out thresholds with more than this share of a class's rows within
        reach; None leaves out none. Of several, the one that does best with a few rounds is taken.
        Norm 0 has no use for it.
    clean_loss : float or None, default 0.01
        How much accuracy on the validation data certified training may give up for robustness,
        compared with plain LightGBM's, or with the most accurate trial's if that is less;
        None: all of it.
    **lightgbm_parameters
        Any other parameter of LightGBM, under any of its names; one that large-spread training
        cannot honour is refused by name.

    Attributes
    ----------
    booster_ : lightgbm.Booster
    ensemble_ : carvegbm.Ensemble
    attacker_ : carvegbm.Attacker
    classes_ : array
    stopped_because_ : {"rounds", "early stopping", "no thresholds left", "interrupted"}
    n_iter_, best_iteration_ : int
        Number of rounds in the model, up to the last with a split; 0 for a constant.
    best_score_ : float or None
        With early stopping: the first metric on the first evaluation set after these rounds.
    evals_result_ : dict
        Every metric after every round, by evaluation set.
    n_open_thresholds_ : int
        Candidate thresholds that no tree closed; a categorical feature counts as one.
    training_report_ : TrainingReport
        With certified training: every trial, what was chosen, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X)
    >>> model = LargeSpreadClassifier(norm="inf", budget=0.01, n_estimators=20, random_state=0)
    >>> result = model.fit(X[:400], y[:400]).verify(X[400:], y[400:])
    >>> result.accuracy > 0.9
    True
    >>> 0.8 < model.robust_score(X[400:], y[400:]) <= result.accuracy
    True
    """

    _for_numbers = "LargeSpreadRegressor"


class LargeSpreadRegressor(LargeSpread, Regressor):
    """A gradient-boosted regressor whose reachable outputs can be computed exactly and fast.

    The parameters and attributes are those of `LargeSpreadClassifier`; `objective` is one of
    LightGBM's for regression (default "regression": squared error).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = LargeSpreadRegressor(norm="inf", budget=0.001, num_leaves=8, learning_rate=0.3)
    >>> model.fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.9
    True
    >>> model.output_range(X[:3]).exact.tolist()
    [True, True, True]
    """

    def _check_regression(self) -> None:
        if self.certified:
            raise CarveError("certified training defends classes; a regressor has none to defend")


class RobustClassifier(Robust, Classifier):
    """A gradient-boosted classifier that is trained to be robust, and proven so.

    Trees are grown against the attacker: a split counts rows where the attacker would push them,
    and the scores of all leaves are fitted to worst cases. Of several models, the one with the
    largest proven robustness on the validation data is kept. No condition restricts its thresholds;
    verification is exact for any of them.

    Parameters
    ----------
    norm, budget, scale, features, bounds, step, categories, one_hot
        The attacker to be robust against, see `carvegbm.Attacker`.
    n_estimators : int, default 120
        Rounds of boosting, of all members together. For more than two classes, where a round grows
        a tree per class, 24; for norms other than inf, 360.
    num_leaves, learning_rate, min_child_samples, reg_lambda
        As in LightGBM, by default 32, 0.15, 10 and 1; for norms other than inf 8, 0.1, 10 and 1.
    max_depth, min_child_weight, min_split_gain, subsample, subsample_freq, colsample_bytree, \
    reg_alpha
        As in LightGBM, with its defaults.
    colsample_bynode : float, optional
        Share of the features that every split chooses from; chosen by `fit` unless given, as the
        next four.
    max_bin : int, optional
        Largest number of candidate thresholds per feature.
    n_members : int, optional
        Models that differ in their seed alone, and share the rounds; the classifier is their
        average.
    leaf_l2 : float or sequence of float, optional
        L2 penalty on the leaf scores when all of them are fitted. Of several values, the best on
        validation data is taken.
    max_crowding : float, None or a sequence of these, default "auto"
        Thresholds with more than this share of a class's rows within reach are left out; None
        leaves out none. Of several, the best on validation data is taken.
    clean_loss : float or None, default "auto"
        How much accuracy on the validation data may be given up for robustness, compared with plain
        LightGBM's, or with the most accurate trial's if that is less. "auto" and None: all of it.
    class_weight : dict or "balanced", optional
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Threads; all cores by default. The model does not depend on their number.
    verbose : int, default 0
        1: a progress bar on a terminal, and a line per trial.
    **lightgbm_parameters
        Other parameters of LightGBM are refused by name.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        Like any other: SHAP values, plots, treelite and ONNX work on it.
    ensemble_ : carvegbm.Ensemble
    attacker_ : carvegbm.Attacker
    classes_ : array
    training_report_ : TrainingReport
        Every trial, what was chosen, and why.
    stopped_because_ : {"rounds", "early stopping", "no thresholds left", "interrupted"}
    n_iter_, best_iteration_ : int
        Number of rounds of every member, up to the last with a split; 0 for a constant.
    best_score_ : float or None
        The loss of worst cases on the validation data after these rounds, where there are any.
    evals_result_ : dict
        The same after every round of the first member, by evaluation set: ``"worst_loss"``. Where
        certified large-spread training did better (norms other than inf), both are its own.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X)
    >>> model = RobustClassifier(norm="inf", budget=0.05, n_estimators=20, random_state=0)
    >>> result = model.fit(X[:400], y[:400]).verify(X[400:], y[400:])
    >>> 0.8 < result.robustness[0] <= result.accuracy
    True
    """

    _for_numbers = "RobustRegressor"


class RobustRegressor(Robust, Regressor):
    """A gradient-boosted regressor that is trained for the worse end of what an attacker reaches.

    Its loss is the squared error at the lowest or the highest prediction within the attacker's
    reach, whichever is further from the truth. The parameters and attributes are those of
    `RobustClassifier`; `clean_loss` and `class_weight` have no meaning here.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = RobustRegressor(norm="inf", budget=0.01, n_estimators=30, random_state=0)
    >>> 0.8 < model.fit(X, X[:, 0] ** 2).robust_score(X, X[:, 0] ** 2) < 1
    True
    """
