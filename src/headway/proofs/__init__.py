"""Is a model right on every input of every length? Proofs by enumeration of what a position can see.

Where attention is windowed, what happens at a position depends on a handful of tokens, however long the input is: its
local context. There are finitely many of them, so all can be asked. docs/proofs.md explains it.
"""
