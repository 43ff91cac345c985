"""What is kept on disk: whole, unchanged, for one process, and of the same question.

`files` writes a file whole or not at all, `locks` gives it to one process, `sealed` tells what was
written from what was not, `fingerprint` ties it to all that it depends on. On these stand the two
kinds of store: `journal`, a file that grows while one run goes on, and `records`, a file per
finished thing that many processes may share. (The experiments keep rows of an unfinished cell as
sealed lines without a lock: what is damaged there is computed again, and nobody is asked.)
"""
