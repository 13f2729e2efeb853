#!/usr/bin/env python3
"""Checks statistically steady isotropic turbulence: the energy budget, and statistics with known values.

    python benchmarks/forced_turbulence.py --grid 64 --output benchmarks/results/forced_turbulence.json

Stochastic forcing (Eswaran & Pope) acts on |k| <= 2 sqrt(2), with phase shifts and a Courant number of 0.6. After
--spin-up time units, spectra are taken every 20 steps and gradients every 100, for --time units or at most --minutes.
The averages are the energy budget, the skewness of the longitudinal gradients (about -0.5 in experiments and
simulations: Sreenivasan & Antonia 1997), and the largest value of the compensated spectrum E(k) k^(5/3) /
dissipation^(2/3) beyond the forced shells (near 2 at these Reynolds numbers: Yeung & Zhou 1997). Errors are those of
means: the standard deviation of ten parts over the root of ten.
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

import weft


def mean_and_error(values: list[float]) -> dict[str, float]:
    parts = [float(np.mean(part)) for part in np.array_split(np.array(values), min(10, len(values)))]
    return {"mean": float(np.mean(values)), "error": float(np.std(parts) / math.sqrt(len(parts)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", type=int, default=64)
    parser.add_argument("--viscosity", type=float, default=0.015)
    parser.add_argument("--amplitude", type=float, default=0.005, help="sigma^2 T of the forcing")
    parser.add_argument("--correlation-time", type=float, default=0.5)
    parser.add_argument("--spin-up", type=float, default=10.0)
    parser.add_argument("--time", type=float, default=60.0)
    parser.add_argument("--minutes", type=float, default=3.5)
    parser.add_argument("--precision", choices=["double", "single"], default="single")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    comm = MPI.COMM_WORLD
    radius = 2 * math.sqrt(2)
    forcing = weft.turbulence.Forcing("stochastic", radius, options.amplitude, options.correlation_time)
    solver = weft.turbulence.Solver(
        options.grid,
        viscosity=options.viscosity,
        courant=0.6,
        forcing=forcing,
        precision=options.precision,
        device="host",
    )
    solver.set_random(lambda k: 0.05 * k**4 * np.exp(-2 * (k / 3) ** 2), seed=1)
    while solver.time < options.spin_up:
        solver.step(20)
    start, input_before = solver.time, solver.energy_input
    energy_before = solver.spectra().scales().energy
    samples: dict[str, list[float]] = {}
    spectra = []

    def note(**values: float) -> None:
        for name, value in values.items():
            samples.setdefault(name, []).append(value)

    rounds = 0
    while solver.time < start + options.time:
        if comm.bcast(time.perf_counter() - begin > 60 * options.minutes):
            break
        solver.step(20)
        rounds += 1
        found = solver.spectra()
        s = found.scales()
        spectra.append(found.energy)
        note(
            energy=s.energy,
            dissipation=s.dissipation,
            reynolds_taylor=s.reynolds_taylor,
            kmax_eta=s.kmax_eta,
            eddy_turnover_time=s.eddy_turnover_time,
        )
        if rounds % 5 == 0:
            gradients = solver.point_statistics(pressure=False, transfer=False).distributions
            longitudinal = [d for name, d in gradients.items() if name in ("du/dx", "dv/dy", "dw/dz")]
            note(
                skewness=float(np.mean([d.skewness for d in longitudinal])),
                flatness=float(np.mean([d.flatness for d in longitudinal])),
            )
    elapsed = solver.time - start
    averages = {name: mean_and_error(values) for name, values in samples.items()}
    dissipation = averages["dissipation"]["mean"]
    wavenumbers = found.wavenumbers
    compensated = np.mean(spectra, axis=0) * wavenumbers ** (5 / 3) / dissipation ** (2 / 3)
    result = {
        "what": "forced isotropic turbulence, averages over time",
        "grid": options.grid,
        "precision": options.precision,
        "viscosity": options.viscosity,
        "forcing": {"radius": radius, "amplitude": options.amplitude, "time": options.correlation_time},
        "ranks": comm.size,
        "steps": solver.steps,
        "time_averaged": elapsed,
        "averages": averages,
        "work_of_forcing_per_time": (solver.energy_input - input_before) / elapsed,
        "change_of_energy_per_time": (samples["energy"][-1] - energy_before) / elapsed,
        "compensated_spectrum_largest": float(compensated[wavenumbers > radius + 1].max()),
        "seconds": time.perf_counter() - begin,
    }
    balance = result["work_of_forcing_per_time"] - result["change_of_energy_per_time"]
    result["dissipation_over_work"] = dissipation / balance
    if comm.rank == 0:
        print(json.dumps(result, indent=1))
        if options.output:
            options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
