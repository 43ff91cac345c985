"""Axes: a problem as the C++ core sees it, and the way there and back.

The core knows real numbers, whole numbers and states; steps become whole numbers, categories and
one-hot groups become states. Where nothing of this is used, rows pass through as they are.
"""
