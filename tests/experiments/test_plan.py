"""The plan: every cell the evaluation asks for, once, in an order that works."""

from __future__ import annotations

import json

import pytest

from carvegbm import CarveError
from carvegbm_experiments import datasets
from carvegbm_experiments.plan.cell import KINDS, TIMED, canonical
from carvegbm_experiments.plan.paper import MEASURES
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.robust import PROTOCOLS, ROWS, SOURCES
from carvegbm_experiments.plan.suites import PAPER, QUICK


def attackers(cells, kind, **wanted):
    """Data set, norm and budget of all cells of a kind with these values."""
    return [
        (cell.dataset, cell.configuration["norm"], cell.configuration["budget"])
        for cell in cells
        if cell.kind == kind and wanted.items() <= cell.configuration.items()
    ]


@pytest.fixture(name="cells", params=[PAPER, QUICK], ids=lambda suite: suite.name)
def make_cells(request):
    return plan(request.param)


def test_every_row_of_the_papers_tables_is_measured():
    cells = plan(PAPER)
    for kind in ("plain-robustness", "time", "certified"):
        assert set(MEASURES) <= set(attackers(cells, kind))
    for criterion in ("accuracy", "robustness"):
        assert set(MEASURES) <= set(attackers(cells, "large-spread", criterion=criterion))


def test_what_the_paper_does_not_have_is_measured():
    cells = plan(PAPER)
    extra = [("fmnist", "2", 0.05), ("mnist", "2", 0.1), ("fmnist", "inf", 0.1)]
    extra += [("mnist", "inf", 0.3), ("nsl-kdd", "inf", 0.01), ("social-honeypot", "inf", 0.001)]
    for kind in ("large-spread", "certified"):
        assert set(extra) <= set(attackers(cells, kind))
    for model in ("plain", "large-spread", "certified"):
        assert ("fmnist", "1", 0.1) in attackers(cells, "curve", model=model)
    assert ("mnist", "0", 3) in attackers(cells, "gallery")


def test_the_papers_settings():
    cells = plan(PAPER)
    for cell in cells:
        setting = cell.configuration
        if cell.kind in ("plain", "large-spread"):
            assert setting["leaves"] == [16, 32, 64, 128, 256]
            assert (setting["trees"], setting["early_stopping"]) == (500, 50)
            assert setting["learning_rate"] == 0.1
        if cell.kind in ("plain-robustness", "time"):
            assert (setting["rows"], setting["timeout"]) == (500, 10)
        if cell.kind == "speed-up":
            assert (setting["num_leaves"], setting["timeout"]) == (32, 30)
    trees = [cell.configuration["trees"] for cell in cells if cell.kind == "speed-up"]
    assert sorted(set(trees)) == [25, 50, 75, 100, 125]


def test_no_cell_is_there_twice(cells):
    assert len({cell.key for cell in cells}) == len(cells)
    assert len({cell.title for cell in cells}) == len(cells)


def test_configurations_survive_json_and_name_their_suite(cells):
    for cell in cells:
        text = canonical(cell.configuration)
        assert canonical(json.loads(text)) == text
        assert cell.configuration["suite"] in ("paper", "quick")


def test_what_a_cell_needs_comes_before_it(cells):
    place = {cell.key: i for i, cell in enumerate(cells)}
    needing = [cell for cell in cells if cell.needs]
    assert needing
    for cell in needing:
        assert max(place[needed.key] for needed in cell.needs) < place[cell.key]


def test_times_are_taken_last_and_what_all_data_is_comes_first(cells):
    timed = [cell.kind in TIMED for cell in cells]
    assert timed == sorted(timed)
    kinds = [cell.kind for cell in cells]
    assert set(kinds[: kinds.count("dataset")]) == {"dataset"}


def test_large_data_waits_for_small_data():
    names = [cell.dataset for cell in plan(PAPER) if cell.kind == "certified"]
    assert names.index("webspam") > max(i for i, name in enumerate(names) if name != "webspam")


def test_attackers_beyond_the_papers_may_cost_more_accuracy():
    losses = {}
    for cell in plan(PAPER):
        if cell.kind == "certified":
            setting = cell.configuration
            task = (cell.dataset, setting["norm"], setting["budget"])
            losses[task] = setting["clean_loss"]
    extras = {(name, *attacker) for name, list_ in PAPER.extras.items() for attacker in list_}
    assert {losses[task] for task in extras} == {PAPER.extra_clean_loss}
    assert {loss for task, loss in losses.items() if task not in extras} == {0.01}


def test_both_criteria_choose_among_the_same_trials():
    by_accuracy, by_robustness = (
        {
            canonical({**cell.configuration, "criterion": ""})
            for cell in plan(PAPER)
            if cell.kind == "large-spread" and cell.configuration["criterion"] == criterion
        }
        for criterion in ("accuracy", "robustness")
    )
    assert by_robustness < by_accuracy


def test_a_curve_passes_through_the_budget_its_model_was_trained_for(cells):
    curves = [cell.configuration for cell in cells if cell.kind == "curve"]
    assert curves
    for setting in curves:
        assert setting["budget"] in setting["budgets"]
        assert setting["budgets"] == sorted(set(setting["budgets"]))


def test_the_quick_suite_has_every_kind_of_cell_and_needs_no_download():
    assert {cell.kind for cell in plan(QUICK)} == set(KINDS)
    for name in QUICK.datasets:
        assert len(datasets.load(name, download=False).y) > 0


def test_one_data_set_can_be_chosen():
    chosen = plan(PAPER, only=["mnist"])
    assert [c.key for c in chosen] == [c.key for c in plan(PAPER) if c.dataset == "mnist"]


def test_a_kind_brings_what_it_needs():
    chosen = plan(PAPER, only=["time", "fmnist"])
    assert {cell.kind for cell in chosen} == {"time", "large-spread"}
    assert {cell.dataset for cell in chosen} == {"fmnist"}
    assert {cell.configuration.get("criterion") for cell in chosen} == {"accuracy", None}


def test_norms_can_be_chosen():
    chosen = plan(PAPER, norms=["1", "2"])
    assert {cell.configuration.get("norm") for cell in chosen} == {None, "1", "2"}
    assert {cell.kind for cell in chosen} == set(KINDS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"only": ["fmnist", "cifar"]}, ["--only cifar", "fmnist, mnist, webspam", "speed-up"]),
        ({"norms": ["3"]}, ["--norms 3", "inf, 0, 1, 2"]),
        ({"norms": ["L1"]}, ["--norms L1", "inf, 0, 1, 2"]),
        ({"norms": []}, ["--norms", "inf, 0, 1, 2"]),
        ({"only": []}, ["--only", "fmnist"]),
    ],
)
def test_unknown_names_are_refused_with_the_ones_there_are(options, words):
    with pytest.raises(CarveError) as error:
        plan(PAPER, **options)
    for word in words:
        assert word in str(error.value)


def test_settings_of_the_general_engines_make_other_cells_of_theirs_only():
    before = {cell.key for cell in plan(PAPER)}
    after = plan(PAPER, rows=100, timeout=1)
    changed = {cell.kind for cell in after if cell.key not in before}
    assert changed == {"plain-robustness", "time", "curve"}
    settings = [c.configuration for c in after if c.kind in ("plain-robustness", "time")]
    assert {(setting["rows"], setting["timeout"]) for setting in settings} == {(100, 1)}


def test_another_seed_makes_every_cell_another():
    assert not {cell.key for cell in plan(QUICK)} & {cell.key for cell in plan(QUICK, seed=1)}


# ── robust training ──────────────────────────────────────────────────────────────────────────


def robust_rows(protocol):
    return [row for row in ROWS if row.protocol == protocol]


def test_every_row_of_every_protocol_has_a_cell_per_model():
    found = [
        (c.configuration["protocol"], c.dataset, c.configuration["norm"], c.configuration["budget"])
        for c in plan(PAPER)
        if c.kind == "robust"
    ]
    wanted = [
        (row.protocol, row.dataset, row.norm, row.budget)
        for row in ROWS
        for _ in PROTOCOLS[row.protocol].models
    ]
    assert sorted(found) == sorted(wanted)


def test_published_rows_name_what_was_published():
    for protocol in ("A", "L1/L2"):
        rows = robust_rows(protocol)
        assert rows
        assert all(row.clean is not None and row.robust is not None for row in rows)
        assert all(row.clean < row.robust for row in rows)
    assert {row.robust for row in robust_rows("G") if row.dataset == "mnist-2-6"} == {5.63}
    for row in robust_rows("G"):
        assert row.inner  # the folds of the source are for the test only
    known = {*SOURCES, *PAPER.datasets, *QUICK.datasets}
    assert {row.dataset for row in (*ROWS, *QUICK.robust)} <= known


def test_cross_validated_models_have_at_most_100_trees():
    for cell in plan(PAPER, only=["G"]):
        assert cell.configuration["parameters"]["n_estimators"] <= 100


def test_a_protocol_can_be_chosen_alone_or_for_one_data_set():
    chosen = plan(PAPER, only=["G"])
    assert {cell.kind for cell in chosen} == {"robust"}
    assert {cell.configuration["protocol"] for cell in chosen} == {"G"}
    (cell,) = plan(PAPER, only=["A", "diabetes"])
    assert (cell.dataset, cell.configuration["protocol"]) == ("diabetes", "A")
    every = plan(PAPER, only=["robust"])
    assert {cell.configuration["protocol"] for cell in every} == set(PROTOCOLS)


def test_certified_and_robust_training_may_give_up_as_much_accuracy():
    losses = {}
    for cell in plan(PAPER, only=["tables", "images"]):
        setting = cell.configuration
        task = cell.dataset, setting["norm"], setting["budget"]
        if setting["model"] == "robust":
            losses[task] = setting["parameters"]["clean_loss"]
    certified = {
        (c.dataset, c.configuration["norm"], c.configuration["budget"]): c.configuration
        for c in plan(PAPER, only=["certified"])
    }
    images = {task: loss for task, loss in losses.items() if task[0] in ("fmnist", "mnist")}
    assert len(images) == 24
    for task, loss in images.items():
        assert certified[task]["clean_loss"] == loss
