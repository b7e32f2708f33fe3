"""How a judge's reply is read: a value, or the name of what is wrong with it, and never a guess.

Every reader goes the same way (:func:`rm.protocols.parsing.core.read`): the thinking is put aside, the answer is tried
as JSON, then as text that holds JSON, then as JSON with faults, then as words of a fixed form; each level is counted.
"""

from rm.protocols.parsing.answers import read_checklist, read_one_word
from rm.protocols.parsing.core import Parsed, ParseLevel, count_table
from rm.protocols.parsing.preferences import Preference, Rule, read_pairwise, swap_preference
from rm.protocols.parsing.scores import Scale, read_rubric, read_score_list

__all__ = [
    "ParseLevel",
    "Parsed",
    "Preference",
    "Rule",
    "Scale",
    "count_table",
    "read_checklist",
    "read_one_word",
    "read_pairwise",
    "read_rubric",
    "read_score_list",
    "swap_preference",
]
