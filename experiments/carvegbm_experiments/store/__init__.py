"""Where cells are kept: `folder` is the results folder, `documents` and `pixels` its files."""
