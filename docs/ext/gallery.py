"""The order of the gallery: from the first question to the last, what is not listed at the end."""

from __future__ import annotations

STORY = (
    "plot_plain_model_and_attacks.py",
    "plot_spam_add_only.py",
    "plot_robust_digits.py",
    "plot_radius_and_curve.py",
    "plot_other_libraries.py",
    "plot_audit.py",
)


class ByStory:
    """A key for sorting, as sphinx-gallery wants it: made with the folder, called with a file."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """The place of a file."""
        return STORY.index(filename) if filename in STORY else len(STORY), filename
