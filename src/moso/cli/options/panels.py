"""Headings under which help lists flags, in their order.

Those between arguments and output are the groups of settings of `configuration/fields.py`; a test compares the two.
They are written twice because `moso --help` does not need the settings, nor pydantic.
"""

FILES = "Arguments"
PANELS = (
    "Data",
    "Network and training",
    "Scoring",
    "Selection",
    "Proof",
    "Where it runs",
)
DATA, NETWORK, SCORING, SELECTION, PROOF, PLACE = PANELS
OUTPUT = "Output"
