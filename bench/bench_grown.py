"""Programs that hold gigabytes, at full size: the interval in force, ±, own count. `busy` has them beside the plain program, with many others."""

import dataclasses

import machine
from bench_busy import HEAD, cases, measured
from measure import MeasurementError
from table import Table
from machine import say


def tables(plan):
    if plan.is_check:
        return
    machine.compile_c(machine.PROGRAMS / "busy.c", "busy", "-pthread")
    rounds, lines, gates = plan.rounds(10, 1), [], []
    for beside in ("alone", "beside stress-ng"):
        for case in cases(plan)[:3]:
            try:
                _, _, line, own_gates = measured(dataclasses.replace(case, beside=None), beside, rounds)
            except MeasurementError as error:
                say(f"grown: {case.what}: NOT MEASURED: {error}")
                continue
            say(line)
            lines.append(line)
            gates += own_gates
    yield Table("Programs that hold gigabytes", gates, f"{rounds} runs of each; T, ± and the own count are the largest.\n\n" + "\n".join([HEAD, *lines]))
