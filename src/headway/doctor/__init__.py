"""What is wrong with a run, said before anyone reports it as a finding; `hw.doctor(run)` examines one."""

from headway.lazy import make_callable

make_callable(__name__, "headway.doctor.visit:doctor")
