"""Training on sparse matrices: the model is that of the same rows as an array."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import carvegbm as cg
from training.estimators import classifier, regressor


def texts(n=400, d=30, seed=0, density=0.15):
    """Counts of words, most of them 0; and labels 0, 1."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < density, rng.integers(1, 6, (n, d)), 0).astype(float)
    return X, ((X[:, 0] > 0) ^ (X[:, 1] + X[:, 2] > 2)).astype(int)


FORMATS = [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.csr_array]


@pytest.mark.parametrize("to_sparse", FORMATS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"norm": 0, "budget": 2}, {"certified": True}], ids=str)
def test_a_sparse_matrix_trains_the_model_of_its_rows(to_sparse, options):
    X, y = texts()
    X[::9, 3] = np.nan
    given, valid = to_sparse(X[:300]), to_sparse(X[300:])
    model = classifier(random_state=0, **options)
    one = clone(model).fit(given, y[:300], eval_set=(valid, y[300:]))
    other = model.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    assert one.booster_.model_to_string() == other.booster_.model_to_string()
    assert one.evals_result_ == other.evals_result_
    assert np.array_equal(one.predict_proba(valid), other.predict_proba(X[300:]))
    assert one.robust_score(valid, y[300:]) == other.robust_score(X[300:], y[300:])


def test_entries_given_twice_are_added_up():
    X, y = texts()
    rows, columns = np.nonzero(X)
    halves = np.concatenate([X[rows, columns] / 2] * 2)
    twice = sparse.coo_matrix((halves, (np.tile(rows, 2), np.tile(columns, 2))), X.shape)
    assert classifier().fit(twice, y).ensemble_ == classifier().fit(X, y).ensemble_


def test_a_regressor_and_categories_take_a_sparse_matrix():
    X, y = texts()
    one, other = (
        regressor(min_data_per_group=5).fit(given, y, categorical_feature=[0, 2])
        for given in (sparse.csr_matrix(X), X)
    )
    assert one.ensemble_ == other.ensemble_
    assert list(one.ensemble_.categories) == [0, 2]


def test_infinity_in_a_sparse_matrix_is_refused_by_row_and_column():
    X, y = texts()
    X[7, 5] = np.inf
    with pytest.raises(cg.DataError, match="X row 7, feature 5 is infinity"):
        classifier().fit(sparse.csr_matrix(X), y)
