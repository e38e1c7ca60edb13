"""Proofs that a model is right on every input of every length, by enumerating local contexts.

With windowed attention, the output at a position depends on a few tokens around it, its local context, however long the
input is. There are finitely many local contexts, so each of them can be checked. docs/proofs.md explains the method.
"""
