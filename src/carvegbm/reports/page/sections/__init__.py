"""The sections of the page, a file each: the answer, how far, weak, witnesses, advice, decided."""
