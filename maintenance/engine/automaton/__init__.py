"""Conjunctive queries by the thousand, evaluated as one automaton of triple patterns (paper 003)."""
