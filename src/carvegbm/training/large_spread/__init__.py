"""Large-spread training: thresholds of one feature in two trees are far apart."""
