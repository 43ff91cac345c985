"""A trained model is an ensemble at once; its text is written once, and checked."""

from __future__ import annotations

from collections import Counter

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.readers import lightgbm as reader
from carvegbm.training import model as models
from carvegbm.training.binning import ZERO_ZONE
from carvegbm.training.model import GBDTModel, stored_scores
from training import problems
from training.estimators import ATTACKERS, classifier, regressor

CASES = {
    "binary": (classifier, problems.two_classes),
    "multiclass": (classifier, problems.three_classes),
    "regression": (regressor, problems.numbers),
}


def trained(kind, **parameters):
    """A model, the rows it was trained on, and its estimator."""
    make, problem = CASES[kind]
    X, y = problem()
    estimator = make(**parameters)
    found = []

    def set_result(result, *rest):
        found.append(result.model)
        type(estimator)._set_result(estimator, result, *rest)

    estimator._set_result = set_result
    estimator.fit(X, y)
    return found[0], X, estimator


@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
@pytest.mark.parametrize("kind", CASES)
def test_the_ensemble_is_the_one_a_reader_finds_in_the_text(kind, norm, budget):
    model, X, estimator = trained(kind, norm=norm, budget=budget)
    booster = lightgbm.Booster(model_str=model.text())
    labels = None if kind == "regression" else estimator.classes_
    assert model.ensemble == cg.load(booster, classes=labels) == estimator.ensemble_
    assert model.ensemble.feature_names == tuple(booster.feature_name())
    raw = booster.predict(X, raw_score=True)
    assert np.array_equal(model.ensemble.raw_score(X), raw)


def test_thresholds_next_to_zero_and_a_scale_of_the_score_are_read_back_as_well(monkeypatch):
    def problem():
        X, y = problems.two_classes()
        return np.where(X < 0.5, 0.0, 1.1e-35 + X * 1e-36), y

    monkeypatch.setitem(CASES, "tiny", (classifier, problem))
    model, *_ = trained("tiny", budget=0.0, sigmoid=0.123456789)
    assert ZERO_ZONE in model.ensemble.nodes["threshold"]
    assert model.ensemble.link_scale == 0.123457  # as LightGBM writes it
    assert model.ensemble == reader.from_text(model.text(), [0, 1])


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_any_scores_are_written_and_read_back(kind):
    model, X, _ = trained(kind)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=model.ensemble.scores.shape)
    scores *= 10.0 ** rng.integers(-40, 20, size=scores.shape)
    scores = np.where(model.ensemble.scores != 0, stored_scores(scores), 0.0)
    other = model.with_scores(scores)
    assert other.ensemble == model.ensemble.with_scores(scores) != model.ensemble
    raw = other.booster(X).predict(X, raw_score=True)
    assert np.array_equal(raw, other.ensemble.raw_score(X))
    assert (stored_scores(scores) == scores).all()


# ── how often ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(name="conversions")
def counted_conversions(monkeypatch):
    """How often a model's text is written or parsed, by us or by LightGBM."""
    count = Counter()

    def watch(owner, name, what, when=lambda _: True):
        original = getattr(owner, name)

        def counted(*arguments, **options):
            count[what] += when(options)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    watch(GBDTModel, "text", "written")
    watch(models, "from_text", "parsed")
    watch(lightgbm.Booster, "model_to_string", "written by LightGBM")
    watch(lightgbm.Booster, "set_leaf_output", "leaf by leaf")
    watch(
        lightgbm.Booster, "__init__", "parsed by LightGBM", lambda o: o.get("model_str") is not None
    )
    return count


ONCE = {"written": 1, "parsed": 1, "parsed by LightGBM": 1}


@pytest.mark.parametrize("kind", CASES)
def test_a_fit_writes_a_text_once_and_reads_it_once(kind, conversions):
    make, problem = CASES[kind]
    make().fit(*problem())
    assert +conversions == ONCE


def test_certified_training_writes_the_text_of_the_chosen_trial_alone(conversions):
    model = classifier(certified=True, clean_loss=None, budget=0.02)
    model.fit(*problems.two_classes())
    assert len(model.training_report_.trials) > 4
    assert any(trial.parameters["refit"] for trial in model.training_report_.trials)
    assert +conversions == ONCE


# ── a text that is wrong ─────────────────────────────────────────────────────────────────────


def refused(fit):
    with pytest.raises(cg.ModelError, match="LightGBM") as caught:
        fit()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["leaf_value", "threshold", "left_child"])
def test_a_text_that_holds_other_trees_is_refused(key, monkeypatch):
    def wrong(*arguments):
        lines = write(*arguments).split("\n")
        places = [i for i, line in enumerate(lines) if line.startswith(f"{key}=")]
        first, rest = lines[places[2]].split(" ", 1)
        name, number = first.split("=")
        other = "2" if key == "left_child" else repr(np.nextafter(float(number), np.inf).item())
        lines[places[2]] = f"{name}={other} {rest}"
        return "\n".join(lines)

    write = GBDTModel.text
    X, y = problems.two_classes()
    fit = classifier().fit
    monkeypatch.setattr(GBDTModel, "text", wrong)
    refused(lambda: fit(X, y))


def test_a_booster_with_other_raw_scores_is_refused(monkeypatch):
    predict = lightgbm.Booster.predict

    def wrong(self, *arguments, **options):
        raw = predict(self, *arguments, **options)
        raw[-1] = np.nextafter(raw[-1], 0)
        return raw

    monkeypatch.setattr(lightgbm.Booster, "predict", wrong)
    refused(lambda: classifier().fit(*problems.two_classes()))
