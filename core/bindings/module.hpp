// What the module is made of: a function per file beside this one.
#pragma once

#include <nanobind/nanobind.h>

void bind_ensemble(nanobind::module_& module);
void bind_problem(nanobind::module_& module); // after the ensemble
void bind_decisions(nanobind::module_& module);
void bind_decide(nanobind::module_& module); // after the problem and the decisions
void bind_proofs(nanobind::module_& module); // after the decisions
void bind_training(nanobind::module_& module);
void bind_witnesses(nanobind::module_& module);
void bind_boosting(nanobind::module_& module);
