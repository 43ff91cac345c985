"""Which cells there are: `paper` and `suites` are facts, `planning` makes `cell`s of them."""
