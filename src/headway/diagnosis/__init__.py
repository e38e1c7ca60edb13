"""What is wrong with a run, said before anyone reports it as a finding; `hw.doctor(run)` examines one."""
