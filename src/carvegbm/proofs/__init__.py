"""Proof files, which `carvegbm_check` verifies without trusting the engines."""
