// The module: numpy arrays in, core calls without the GIL, named results out.
#include "bindings/module.hpp"

NB_MODULE(_core, module) {
    // Objects that outlive the module at exit, as a user's globals may, are no mistake of ours.
    nanobind::set_leak_warnings(false);
    module.doc() = "Kernels of carvegbm: flat arrays in, named columns out.";
    bind_ensemble(module);
    bind_problem(module);
    bind_decisions(module);
    bind_decide(module);
    bind_proofs(module);
    bind_training(module);
    bind_witnesses(module);
    bind_boosting(module);
}
