"""MDMR-Bench: pictures made from one to four references, judged by checklists of yes/no questions."""
