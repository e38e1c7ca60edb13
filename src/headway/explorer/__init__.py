"""The explorer: one HTML file in which a run's model computes, and its heads can be switched off."""

from headway.lazy import make_callable

make_callable(__name__, "headway.explorer.writing:explore")
