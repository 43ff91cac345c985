"""Where cells are kept: `folder` is the results folder, `pixels` are images in a cell."""
