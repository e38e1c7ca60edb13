"""The doctor: checks of a run's data, code, model and claims before its results are reported; see `hw.doctor(run)`."""
