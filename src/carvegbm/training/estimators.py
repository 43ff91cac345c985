"""The public estimators, with scikit-learn's interface.

`Robust*` grow trees against the attacker. `LargeSpread*` grow large-spread ensembles, which are
verified without a search.
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
        1: a progress bar on a terminal; elsewhere a line per 50 rounds and, with `certified`, per
        trial. 2: also a line per trial on a terminal.
    certified : bool, default False
        Train for robustness as well: leave out crowded thresholds, and refit the leaf scores
        against the attacker. The first evaluation set serves as validation data; without one, a
        stratified fifth is split off.
    max_crowding : float or None, or a sequence of these, default (0.03, 0.06, 0.12, 0.25, None)
        Certified training leaves out thresholds whose crowding is larger. The crowding of a
        threshold is the largest share of a class's training rows that the attacker can push across
        it. None leaves out no threshold. Of several values, the best one with few rounds is taken.
        It has no effect for norm 0, and a value other than the default brings a warning without
        `certified`.
    clean_loss : float or None, default 0.01
        Accuracy on the validation data that certified training may give up for robustness, compared
        with plain LightGBM, or with the most accurate trial if that is less accurate; None: any. A
        value other than the default brings a warning without `certified`.
    **lightgbm_parameters
        Any other parameter of LightGBM, under any of its names. Parameters that large-spread
        training does not support are refused by name.

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
    """A gradient-boosted classifier that is trained to be robust, with proven robustness.

    Trees are grown against the attacker: a split counts each row on the side where the attacker
    would push it. Afterwards the scores of all leaves are refitted to the worst cases of the
    training rows. `fit` compares several configurations and a plain model of the same size on
    validation rows, and keeps the one with the largest proven robustness.

    The search depends on the number of training rows and on the norm:

    - Fewer than 2,000 rows, without `eval_set`: five-fold cross-validation (below 1,000 rows
      twice) with half and all of the rounds. The best configuration is fitted on all rows.
    - More rows: every configuration is first fitted with a sixth of the rounds (a scout). The best
      one is fitted in full, and so is the second unless it is clearly less robust. The better of
      them is refitted with further strengths of `leaf_l2`. With at least 2,000 validation rows,
      another configuration has to be better than the default by more than a standard error.
      Unless `eval_set` is given, and up to 100,000 rows, the leaf scores of the chosen model are
      fitted once more to all rows.
    - More than two classes: all leaf scores are refitted after every four rounds, and the models
      after each refit are compared.
    - Norms other than inf: trees are grown and refitted against norm inf with a share of the
      budget, and several shares are compared; norm 0 grows them without an attacker. Then the leaf
      scores are refitted at witnesses, the worst changes found for every row. For classes and at
      least 2,000 rows, certified large-spread training is a further candidate.

    Robustness on validation rows is weighted by `eval_sample_weight`, or by the weights of the rows
    that were split off.

    Parameters
    ----------
    norm, budget, scale, features, bounds, step, categories, one_hot
        The attacker to be robust against, see `carvegbm.Attacker`.
    n_estimators : int, optional
        Rounds of boosting, of all members together; by default 120, and 24 for more than two
        classes, where a round grows a tree per class.
    num_leaves, learning_rate, min_child_samples, reg_lambda : optional
        As in LightGBM, by default 32, 0.15, 10 and 1; `num_leaves` is at most 256. For norm 0, and
        for other norms than inf below 2,000 rows, trees are grown at witnesses by default with 8
        leaves, a rate of 0.1 and three times the rounds. With fewer than
        2,000 rows, `min_child_samples` is 5 or 20 unless given.
    max_depth, min_child_weight, min_split_gain, subsample, subsample_freq, colsample_bytree, \
    reg_alpha
        As in LightGBM, with its defaults. `subsample` draws blocks of 64 rows of one class, so that
        few rows are drawn coarsely: at least one block of every class.
    colsample_bynode : float, optional
        Share of the features that every split chooses from; 0.5 by default.
    max_bin : int, optional
        Largest number of candidate thresholds per feature, at most 127; by default 127, and 31 for
        more than 100 features.
    n_members : int, optional
        Number of models that are averaged. They differ in their seed and share the rounds. By
        default 3 for few rows, 1 for many, and both are tried in between.
    leaf_l2 : float or sequence of float, optional
        Strength of the L2 penalty on the leaf scores in the refit: a larger value keeps scores
        closer to 0, so that no score rests on few rows. The best of several values is taken; by
        default the values depend on the number of rows.
    max_crowding : float, None or a sequence of these, default "auto"
        Leave out thresholds whose crowding is larger. The crowding of a threshold is the largest
        share of a class's training rows that the attacker can push across it. None leaves out no
        threshold. The best of several values is taken. "auto": None, and 0.35 for more than two
        classes and at least 2,000 rows.
    clean_loss : float or None, default "auto"
        Accuracy on the validation data that may be given up for robustness, compared with the plain
        model, or with the most accurate trial if that is less accurate. "auto" and None: any.
    class_weight : dict or "balanced", optional
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Threads; all cores by default. The model does not depend on their number.
    verbose : int, default 0
        1: a progress bar on a terminal, a line per trial elsewhere. 2: also a line per trial on a
        terminal.
    time_limit : float, optional
        Seconds after which `fit` returns the best model so far.
    **lightgbm_parameters
        Other parameters of LightGBM are refused by name.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        An ordinary Booster: SHAP values, plots, treelite and ONNX converters work on it.
    ensemble_ : carvegbm.Ensemble
    attacker_ : carvegbm.Attacker
    classes_ : array
    training_report_ : TrainingReport
        Every trial, what was chosen, and why.
    stopped_because_ : {"rounds", "early stopping", "no thresholds left", "time limit", \
    "interrupted"}
    n_iter_, best_iteration_ : int
        Number of rounds of every member, up to the last with a split; 0 for a constant.
    best_score_ : float or None
        The loss at the worst cases of the validation rows after these rounds. None after
        cross-validation, and if no `eval_set`, `early_stopping_rounds` or `callbacks` are given.
    evals_result_ : dict
        The same after every round of the first member, by evaluation set: ``"worst_loss"``. If the
        large-spread candidate was chosen (norms other than inf), both are those of its training.

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
    """A gradient-boosted regressor that is trained against an attacker.

    Its loss is the squared error at the lowest or the highest prediction within the attacker's
    reach, whichever is further from the target. The search, the parameters and the attributes are
    those of `RobustClassifier`; the trial with the smallest worst error is kept, `clean_loss` and
    `class_weight` are refused, and large-spread training is no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = RobustRegressor(norm="inf", budget=0.01, n_estimators=30, random_state=0)
    >>> 0.8 < model.fit(X, X[:, 0] ** 2).robust_score(X, X[:, 0] ** 2) < 1
    True
    """
