"""Many conjunctive queries evaluated as one automaton of triple patterns (paper 003)."""
