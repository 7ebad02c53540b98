"""Deliberate one-line faults in a copy of the tree, and whether the tests see them.

    python -m tests.mutation --sample 240 --seed 1 --tally docs/mutation.md

`faults.py` draws them, `copy.py` makes the copy and learns which tests run which lines,
`__main__.py` puts one fault after another, and `page.py` writes the tally. Why a survivor
changes nothing that anybody could see stands in `survivors.yaml`.
"""
