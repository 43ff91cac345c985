"""Tables say what the cells say, next to what the paper says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from carvegbm import DataError
from carvegbm_experiments.plan.cell import KINDS
from carvegbm_experiments.plan.paper import DATASETS, MEASURES
from carvegbm_experiments.plan.robust import PUBLISHED, ROWS, Row
from carvegbm_experiments.report import published
from carvegbm_experiments.report.comparison import accurate, best, reaches
from carvegbm_experiments.report.lookup import Cells
from carvegbm_experiments.report.markdown import brief, markdown
from carvegbm_experiments.report.tables.chapters import as_cells, missing, sections, tables
from carvegbm_experiments.report.tables.table import DASH, Table, duration, interval, signed, times
from experiments.sample_cells import (
    dataset,
    gallery,
    plain_robustness,
    quick_cells,
    robust,
    sample_cells,
    speed_up,
    time,
    trained,
)

L1_15 = ("fmnist", "1", 0.15)


def table(name: str, cells: list[dict[str, Any]]) -> Table:
    return next(table for table in tables(cells) if table.id == name)


def row(of: Table, *start: str) -> dict[str, str]:
    """The row that begins with these cells, by the names of its columns."""
    found = [cells for cells in of.rows if cells[: len(start)] == start]
    assert len(found) == 1, (start, of.rows)
    return dict(zip(of.flat_header(), found[0], strict=True))


# ── the paper's numbers ──────────────────────────────────────────────────────────────────────


def test_the_paper_has_nine_attackers_for_each_of_its_data_sets() -> None:
    for name in DATASETS:
        rows = [(norm, budget) for dataset, norm, budget in MEASURES if dataset == name]
        assert len(rows) == 9
        assert [norm for norm, _ in rows] == ["inf"] * 3 + ["0"] * 3 + ["1"] * 3
        assert all(a < b for (p, a), (q, b) in itertools.pairwise(rows) if p == q)


def test_numbers_the_papers_text_quotes_are_in_its_tables() -> None:
    webspam = MEASURES["webspam", "inf", 0.0008]
    assert webspam.plain_robustness is not None
    low = webspam.plain_robustness - webspam.plain_uncertainty
    assert round(low, 2) == 0.61  # "ranges between 0.61 and 0.98", where 0.97 is printed
    fmnist = MEASURES["fmnist", "inf", 0.015]
    assert (fmnist.seconds, fmnist.baseline_seconds) == (4, 3448)
    mnist = MEASURES["mnist", "0", 3]
    assert mnist.plain_robustness is not None
    assert round(mnist.plain_robustness + mnist.plain_uncertainty, 2) == 0.65
    assert mnist.robustness == 0.96
    assert [MEASURES["webspam", "0", k].baseline_seconds for k in (1, 2, 3)] == [902] * 3


# ── numbers as text ──────────────────────────────────────────────────────────────────────────


def test_an_interval_shows_its_half_width_unless_it_is_a_point() -> None:
    assert interval(0.8123, 0.8123) == "0.81"
    assert interval(0.47, 0.89) == "0.68 ± 0.21"
    assert interval(0.9, 0.9004) == "0.90 ± 0.0002"  # never ± 0.00
    assert interval(None, None) == DASH


def test_times_and_ratios_keep_two_digits() -> None:
    assert [duration(s) for s in (0.0021, 0.25, 9.94, 3448.2)] == [
        *("2.1 ms", "0.25 s", "9.9 s", "3,448 s")
    ]
    assert [times(r) for r in (0.077, 9.94, 412.4)] == ["0.077 ×", "9.9 ×", "412 ×"]


def test_ours_is_compared_as_printed() -> None:
    assert reaches(0.88501, 0.89)
    assert not reaches(0.88499, 0.89)
    assert accurate(0.9551, 0.97)
    assert not accurate(0.9549, 0.97)
    assert accurate(0.99, 0.97)


# ── the paper's tables ───────────────────────────────────────────────────────────────────────


def test_table_1_says_that_the_paper_swapped_two_row_counts() -> None:
    found = table("datasets", sample_cells())
    fmnist = row(found, "Fashion-MNIST 0 vs 3")
    assert (fmnist["instances: ours"], fmnist["instances: paper"]) == ("14,000", "13,866")
    assert fmnist["classes: ours"] == "50 % / 50 %"
    assert fmnist["rows: test"] == "4,200"
    assert any("swapped" in note for note in found.notes)


def test_table_2_puts_ours_and_the_papers_side_by_side() -> None:
    found = row(table("measures", sample_cells()), "Fashion-MNIST 0 vs 3", "L∞ 0.015")
    assert list(found.values())[2:] == [
        *("0.97", "0.89 ✓", "by robustness"),
        *("0.97", "0.97", "0.97", "0.97", "0.97"),
        *("0.68 ± 0.002", "0.68 ± 0.21", "0.88", "0.88", "0.89"),
    ]


def test_table_2_counts_the_rows_in_which_ours_reach_the_paper_and_explains_the_others() -> None:
    found = table("measures", sample_cells())
    assert len(found.rows) == 18
    assert any("in 17 of 18 rows" in note for note in found.notes)
    assert sum("✓" in cell for cells in found.rows for cell in cells) == 17
    assert len(found.marked) == 17
    assert row(found, "Fashion-MNIST 0 vs 3", "L1 0.15")["best of ours: robustness"] == "0.65 ↓"
    (why,) = [note for note in found.notes if "L1 0.15" in note]
    assert "0.651" in why
    assert "against 0.66" in why
    assert "17 test rows of 4,200 short" in why  # 2,751 of the 2,734 that round to 0.66
    assert "flips 1,281 of the 4,015 rows it gets right" in why
    assert "leaves room for 1,264" in why
    assert "none of the 15 models tried" in why


@pytest.mark.parametrize(
    ("accuracy", "robustness", "words"),
    [
        (0.65, 0.64, "the cause is accuracy: it gets only 2,730 rows right, 2,751 would have"),
        (0.66, 0.651, "all but 21 would have to be robust, and the attacker flips 38"),
    ],
)
def test_a_row_below_the_paper_says_when_accuracy_is_the_ceiling(
    accuracy: float, robustness: float, words: str
) -> None:
    cells = [
        dataset("fmnist", "Fashion-MNIST 0 vs 3", 14_000),
        trained("large-spread", *L1_15, accuracy, robustness),
    ]
    (why,) = [note for note in table("measures", cells).notes if "L1 0.15" in note]
    assert words in why


def test_table_2_says_what_next_to_no_budget_does_to_plain_models() -> None:
    cells = [*sample_cells(), plain_robustness("nsl-kdd", "inf", 0.001, 0.0, 0.0)]
    (note,) = [note for note in table("measures", cells).notes if "1e-30" in note]
    assert "4.1 % on Fashion-MNIST 0 vs 3 and 4.1 % on MNIST 2 vs 6" in note
    assert "On NSL-KDD" in note
    for cell in cells:
        cell["result"].pop("flipped_by_nothing", None)
    assert not any("1e-30" in note for note in table("measures", cells).notes)


def test_table_2_says_which_trees_certified_training_tried() -> None:
    (note,) = [n for n in table("measures", sample_cells()).notes if "Certified training" in n]
    assert "at most 16, 32, 64, 128 and 256 leaves" in note


def test_data_sets_with_a_test_set_of_their_own_are_named() -> None:
    own = dataset("nsl-kdd", "NSL-KDD", 148_517)
    own["result"]["test"] = 22_544
    (text,) = [chapter.text for chapter in sections([*sample_cells(), own]) if chapter.id == "data"]
    assert text.endswith("NSL-KDD brings a test set, which is taken as it is; the other rows are "
                         "divided 55 to 15.")  # fmt: skip
    assert "brings" not in sections(sample_cells())[0].text


def test_a_note_says_when_tuning_passed_over_a_model_that_would_do() -> None:
    unlucky = [
        trained("large-spread", *L1_15, 0.96, 0.70, validation_robustness=0.60),
        trained("certified", *L1_15, 0.96, 0.60, validation_robustness=0.65),
    ]
    found = table("measures", unlucky)
    (why,) = [note for note in found.notes if "L1 0.15" in note]
    assert "large-spread reaches the paper's number on the test set" in why


def test_the_best_of_ours_is_chosen_on_the_validation_set() -> None:
    cells = [
        trained("large-spread", *L1_15, 0.96, 0.70, validation_robustness=0.60),
        trained("certified", *L1_15, 0.95, 0.61, validation_robustness=0.65),
    ]
    chosen = best(Cells(cells), L1_15)
    assert chosen is not None
    assert chosen.label == "certified"
    assert chosen.result["robustness"] == 0.61


def test_undecided_rows_are_added_up() -> None:
    notes = table("measures", sample_cells()).notes
    assert any("2 of 9,000 verdicts stay open" in note and "± 0.21" in note for note in notes)


def test_table_3_compares_speed_ups() -> None:
    found = table("times", sample_cells())
    fmnist = row(found, "Fashion-MNIST 0 vs 3", "L∞ 0.015")
    assert fmnist["ours: speed-up"] == "100 ×"  # 5 s over 50 ms
    assert fmnist["ours: undecided"] == "3"
    assert (fmnist["ours: leaves"], fmnist["ours: plain leaves"]) == ("5,440", "5,440")
    assert (fmnist["paper: baseline"], fmnist["paper: speed-up"]) == ("3,448 s", "862 ×")
    mnist = row(found, "MNIST 2 vs 6", "L∞ 0.01")
    assert mnist["ours: general"] == DASH
    assert mnist["paper: speed-up"] == "0.077 ×"
    assert "Not computed yet: 9 cells of this table." in found.notes


def test_speed_up_over_the_program_compares_times_per_row() -> None:
    found = table("speed-up-table", [speed_up("1", 0.05, 100)])
    (cells,) = found.rows
    shown = dict(zip(found.flat_header(), cells, strict=True))
    assert shown["search: speed-up"] == "40 ×"  # 0.8 s over 0.02 s, 200 rows each
    assert shown["mixed-integer program: speed-up"] == "2,000 ×"  # 4 s / 20 over 0.02 s / 200
    assert shown["mixed-integer program: undecided"] == "2 of 20"
    assert "Not computed yet: 4 cells of this table." in found.notes


def test_an_ensemble_that_ran_out_of_features_shows_how_many_trees_it_has() -> None:
    short = speed_up("0", 2, 125)
    short["result"]["trees"] = 31
    found = table("speed-up-table", [short])
    assert found.rows[0][1] == "31 of 125"
    assert any(note.startswith("“31 of 125” trees: training ended early") for note in found.notes)


# ── beyond the paper ─────────────────────────────────────────────────────────────────────────


def test_extras_compare_with_and_without_certified_training() -> None:
    larger = table("larger-budgets-table", sample_cells())
    found = row(larger, "Fashion-MNIST 0 vs 3", "L∞ 0.1")
    assert found["large-spread: robustness"] == "0.250"
    assert found["certified training: robustness"] == "0.717"
    assert larger.notes == (
        "Certified training is more robust in 3 of 3 rows, by +0.289 on average.",
    )
    euclidean = table("l2-table", sample_cells())
    assert [cells[1] for cells in euclidean.rows] == ["L2 0.1", "L2 0.2"]


def test_tuning_by_robustness_stands_next_to_tuning_by_accuracy() -> None:
    found = row(table("tuning-table", sample_cells()), "MNIST 2 vs 6", "L1 0.1")
    assert found["tuned by accuracy: robustness"] == "0.960"
    assert found["tuned by robustness: robustness"] == "0.970"
    assert found["gain: robustness"] == "+0.010"


def test_the_trade_off_table_marks_the_models_that_either_criterion_chose() -> None:
    cells = sample_cells()
    for cell in cells:
        if cell["kind"] == "large-spread" and cell["configuration"]["criterion"] == "robustness":
            cell["result"]["num_leaves"] = 64
    found = table("trade-off-fmnist-0", cells)
    chosen = [found.rows[i] for i, _ in sorted(found.marked)]
    assert [(cells[0], cells[1], cells[2], cells[-1]) for cells in chosen] == [
        *(
            (f"L0 {budget}", "large-spread", leaves, criterion)
            for budget in (1, 2, 3)
            for leaves, criterion in (("32", "accuracy"), ("64", "robustness"))
        ),
        *((f"L0 {budget}", "certified", "32", "robustness") for budget in (1, 2, 3)),
    ]
    assert found.notes[0] == "Certified, L0 1: the most robust above the floor."


def test_a_difference_of_nothing_has_no_sign() -> None:
    assert [signed(value) for value in (-0.0004, 0.0, 0.0012)] == ["0.000", "0.000", "+0.001"]


def test_a_curve_has_a_column_per_model_and_a_row_per_budget() -> None:
    found = table("curve-fmnist-inf", sample_cells())
    assert found.header == ("budget", "GBDT", "large-spread for 0.015", "certified for 0.015")
    assert found.rows[0] == ("0", "0.970", "0.970", "0.970")
    assert "±" in found.rows[-1][1]
    assert len(found.rows) == 13


def test_galleries_count_pixels_that_left_their_range() -> None:
    cell = gallery("fmnist", "0", 3, count=1)
    assert table("gallery-fmnist-0-3-0", [cell]).notes == ()
    cell["result"]["images"][0]["changed"][0][1] = -0.25
    (note,) = table("gallery-fmnist-0-3-0", [cell]).notes
    assert note.startswith("1 changed pixel leaves the range")


def test_galleries_stand_in_the_order_of_the_papers_norms() -> None:
    found = [t.title for t in tables(sample_cells()) if t.id.startswith("gallery")]
    assert found == ["Fashion-MNIST 0 vs 3, L∞ 0.015", "Fashion-MNIST 0 vs 3, L0 3"]


# ── robust training ──────────────────────────────────────────────────────────────────────────


def line(protocol: str, dataset: str, norm: str) -> Row:
    """The first row with these."""
    wanted = (protocol, dataset, norm)
    return next(row for row in ROWS if (row.protocol, row.dataset, row.norm) == wanted)


def test_published_errors_are_as_printed_and_ours_stand_beside_them() -> None:
    found = table("robust-a", [robust(line("A", "mnist-2-6", "inf"))])
    shown = row(found, "MNIST 2 vs 6", "L∞ 0.3")
    assert (shown["published error: clean"], shown["published error: robust"]) == ("0.70", "3.80")
    assert (shown["our error: clean"], shown["our error: robust"]) == ("0.20 ✓", "3.30 ✓")
    assert (shown["ours: trees"], shown["ours: training"]) == ("90", "12 s")
    assert "Not computed yet: 6 cells of this table." in found.notes


def test_every_published_row_is_reached_or_a_note_says_by_how_much_it_is_missed() -> None:
    good, bad = line("A", "mnist-2-6", "inf"), line("A", "mnist-ten", "inf")
    found = table("robust-a", [robust(good), robust(bad, better=-0.25)])
    standing, note, *_ = found.notes
    assert "at or below the published one in 1 of 2 rows, and in 1 of them" in standing
    assert "MNIST, ten classes, L∞ 0.3: the error without attack is 2.93 %, 2.68 % pub" in note
    assert "the error under attack is 12.71 %, 12.46 % published: 5 test rows of 2,000" in note
    assert "4 trials were judged" in note
    assert row(found, "MNIST, ten classes")["our error: robust"] == "12.71"


def test_what_time_leaves_open_counts_as_an_error() -> None:
    cell = robust(line("A", "mnist-2-6", "inf"))
    cell["result"]["robustness"] = [0.95, 0.99]
    found = table("robust-a", [cell])
    assert row(found, "MNIST 2 vs 6")["our error: robust"] == "3.00 ± 2.00"
    assert any("the error under attack is 5.00 %" in note for note in found.notes)


def test_the_source_that_prints_accuracies_is_compared_in_accuracies() -> None:
    found = table("robust-g", [robust(line("G", "wine", "inf"))])
    shown = row(found, "Wine quality", "L∞ 0.05")
    assert shown["published accuracy: robust"] == "0.6397"
    assert shown["our accuracy: robust"] == "0.6447 ✓"


def test_robust_training_stands_beside_plain_and_certified() -> None:
    spambase = line("tables", "spambase", "inf")
    every = [robust(spambase, model) for model in ("plain", "certified", "robust")]
    found = table("robust-own", every)
    shown = row(found, "Spambase", "L∞ 0.001")
    pairs = list(shown.values())[2:8]
    assert pairs == ["0.9800", "0.7400", "0.9800", "0.8900", "0.9800", "0.9400"]
    assert found.notes[0] == (
        "Robust training is at least as robust as certified training in 1 of 1 row, and at least "
        "as accurate, too, in 1 of them."
    )


def test_certified_images_are_those_of_the_papers_evaluation() -> None:
    fmnist = line("images", "fmnist", "inf")
    cells = [robust(fmnist), trained("certified", "fmnist", "inf", fmnist.budget, 0.96, 0.951)]
    shown = row(table("robust-own", cells), "Fashion-MNIST 0 vs 3", "L∞ 0.005")
    assert shown["certified (large-spread): robustness"] == "0.9510"
    points = table("robust-trade-off-fmnist-inf", cells)
    assert [cells[0] for cells in points.rows] == ["certified", "robust"]


def test_regression_is_compared_at_the_worse_end() -> None:
    alcohol = line("regression", "wine-alcohol", "inf")
    found = table("robust-regression", [robust(alcohol, model) for model in ("plain", "robust")])
    shown = row(found, "Wine, alcohol from the rest", "L∞ 0.005")
    assert (shown["plain LightGBM: worse end"], shown["robust training: worse end"]) == (
        *("0.7500", "0.5000"),
    )
    assert shown["large-spread: worse end"] == DASH


def test_data_of_robust_training_has_no_row_in_the_papers_tables() -> None:
    cells = [robust(line("A", "mnist-2-6", "inf"))]
    assert [found.id for found in tables(cells)] == ["robust-a"]


# ── what is missing, and what must not be mixed ──────────────────────────────────────────────


def test_missing_cells_are_counted_once() -> None:
    chapters = sections(sample_cells())
    assert missing(chapters) == 10  # a certified model, and nine times on MNIST
    assert "Not computed yet: 10 cells" in markdown(sample_cells())


def test_a_run_on_one_data_set_has_no_rows_for_the_others() -> None:
    cells = [dataset("fmnist", "Fashion-MNIST 0 vs 3", 14_000), time("fmnist", "inf", 0.01)]
    found = table("measures", cells)
    assert len(found.rows) == 9
    assert {cells[0] for cells in found.rows} == {"Fashion-MNIST 0 vs 3"}
    assert "Not part of this run: MNIST and Webspam." in found.notes
    assert row(found, "Fashion-MNIST 0 vs 3", "L∞ 0.01")["robustness: GBDT"] == DASH


def test_a_quick_run_shows_what_it_computed_and_makes_no_claim_about_the_paper() -> None:
    found = table("measures", quick_cells())
    assert [cells[:2] for cells in found.rows] == [("Digits 3 vs 8", "L∞ 0.04")]
    assert found.missing == frozenset()
    assert not any("at least as robust" in note for note in found.notes)
    assert markdown(quick_cells()).startswith("# Results of a quick run\n")


def test_a_quick_cell_never_enters_the_papers_tables() -> None:
    stray = trained("large-spread", *L1_15, 0.5, 0.5, suite="quick")
    alone = Cells([dataset("fmnist", "Fashion-MNIST 0 vs 3", 14_000), stray])
    assert alone.suite == "paper"
    assert best(alone, L1_15) is None
    assert len(Cells([stray], suite="quick")) == 1


def test_suites_nobody_chose_between_are_refused() -> None:
    other = quick_cells()[0]
    with pytest.raises(DataError, match="several suites"):
        Cells([other, {**other, "configuration": {"suite": "mine", "dataset": "digits"}}])


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_settings_the_more_thorough_counts_and_the_other_is_reported(first: int) -> None:
    both = [
        plain_robustness("fmnist", "inf", 0.01, 0.7, 0.7, rows=100),
        plain_robustness("fmnist", "inf", 0.01, 0.8, 0.8, rows=500),
    ]
    cells = Cells([both[first], both[1 - first]])
    assert cells.left_out == 1
    found = cells.result("plain-robustness", dataset="fmnist", norm="inf", budget=0.01)
    assert found is not None
    assert found["robustness"] == [0.8, 0.8]
    assert "Left out: 1 cell" in markdown(cells)


def test_a_question_with_two_answers_is_refused() -> None:
    cells = Cells(sample_cells())
    with pytest.raises(DataError, match="large-spread cells fit"):
        cells.result("large-spread", dataset="fmnist")


# ── Markdown ─────────────────────────────────────────────────────────────────────────────────


def test_markdown_has_every_table_with_rows_of_one_width() -> None:
    text = markdown(sample_cells())
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == len(tables(sample_cells()))
    for lines in blocks:
        assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cell_shows_in_the_markdown(kind: str) -> None:
    every = sample_cells()
    without = [cell for cell in every if cell["kind"] != kind]
    assert len(without) < len(every)

    def numbers(cells: list[dict[str, Any]]) -> str:
        return "".join(line for line in markdown(cells).splitlines() if line.startswith("|"))

    assert numbers(without) != numbers(every)


def test_markdown_says_how_long_it_took_on_which_machine() -> None:
    text = markdown(sample_cells())
    minutes = len(sample_cells())  # each took one
    assert f"took {minutes // 60} h {minutes % 60} min" in text
    assert "Example CPU \\<3 GHz>, 2 cores, Python 3.11.9, LightGBM 4.7.0" in text


def test_a_run_in_brief_has_sentences_its_report_begins_with_and_counts_published_results() -> None:
    text = brief(sample_cells())
    one, two, three = (f"{sentence.rstrip('.')}." for sentence in text.split(". "))
    assert "in 17 of 18 rows" in one
    assert "verdicts" in two
    assert {f"- {one}", f"- {two}"} <= set(markdown(sample_cells()).splitlines())
    reached = [
        line.robust_reached
        for protocol in PUBLISHED
        for line in published.lines(as_cells(sample_cells()), protocol)
        if line.result
    ]
    assert f"in {sum(reached)} of {len(reached)} row" in three


def test_markdown_links_to_the_page_where_there_is_one() -> None:
    assert "](index.html)" in markdown(sample_cells(), page="index.html")
    assert "](" not in markdown(sample_cells())
