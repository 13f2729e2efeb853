"""Checks of the report's sections 4.3, 6.2 and 6.3 and of its Table 6."""

from __future__ import annotations

import math

import numpy as np

from weft.model import ratio as method
from weft.model.ledger import DIFFERS, Claim, Entry, Outcome, check, claims, consistent, near, numbers, own
from weft.model.result import Result, exact

LEDGER = "gpu-integration"
EFFICIENCY = 0.9  # section 6


@check(LEDGER, "RATIO-EXP-TOTAL", "RATIO-EXP-CHARGE", "RATIO-EXP-PUSH", method="ratio", equation="section 4.3.2")
def exponential(entry: Entry) -> Result:
    return method.printed_decay_cores(entry.text("alpha"), entry.text("beta"), entry.text("lam"), EFFICIENCY)


MEASURED = 0.02  # agreement between a model of one run and another run, as the ledger uses it elsewhere


@check(LEDGER, "RATIO-EXP-XCHECK", method="ratio", equation="section 4.3.2")
def exponential_against_a_run(entry: Entry) -> Outcome:
    fit = entry.other("RATIO-EXP-TOTAL")
    decay = method.Decay(fit.value("alpha"), fit.value("beta"), fit.value("lam"))
    cores = entry.value("c")
    result = exact("ratio", f"T({cores:g})", decay.time(cores), "s", entry.named, "section 4.3.2")
    return near(claims(entry.claimed), [result], MEASURED)


@check(LEDGER, "RATIO-EQ6-TYPO", method="ratio", equation="limit of Eq. 6")
def limit_of_eq_6(entry: Entry) -> Outcome:
    """The text's T_inf = t_MPI + t_OMP compared with the limit of Eq. 6, for arbitrary terms."""
    scaling = method.Scaling(t_mpi=1.0, c_seq=10.0, c_MPI=3.0, c_OMP=5.0, c_hybrid=7.0)
    limit = scaling.time(1e15, 1e15)
    text = scaling.t_mpi + scaling.c_OMP
    computed = Claim(f"limit of Eq. 6 {limit:.6g}", limit * (1 - 1e-9), limit * (1 + 1e-9))
    assert math.isclose(limit, scaling.limit, rel_tol=1e-9)
    return consistent([Claim(f"t_MPI + t_OMP {text:.6g}", text, text), computed])


@check(LEDGER, "RATIO-BGW", method="ratio", equation="Eq. 6")
def implied_terms(entry: Entry) -> Outcome:
    """The c_OMP / (t_mpi + c_seq) that gives the printed number of cores, which is proportional to it."""
    cores = float(numbers(entry.claimed)[0])
    a_whole = method.cores_needed(method.Scaling(0.0, 1.0, c_OMP=1.0), EFFICIENCY).count
    return own("NOT-REPRODUCIBLE", entry, [cores / a_whole])


@check(LEDGER, "RATIO-SELFTEST", method="ratio", equation="Eq. 5")
def recovered_terms(entry: Entry) -> Outcome:
    """Eq. 5 fitted to times with known noise: every c within 5 %, and the design conditioned as in the ledger."""
    seq, mpi, omp, hybrid = entry.values("c")
    true = method.Scaling(0.0, seq, mpi, omp, hybrid)
    noise = float(entry.text("noise").rstrip("%")) / 100
    generator = np.random.default_rng(0)
    runs = [
        method.Run(p, t, true.time(p, t) * (1 + noise * generator.standard_normal())) for p, t in entry.pairs("grid")
    ]
    found = method.fit(runs)
    close = all(abs(getattr(found, c) / getattr(true, c) - 1) < 0.05 for c in method.TERMS)
    condition = float(np.linalg.cond(method.design(runs, method.TERMS)))
    conditioned = own("METHOD-CHECK", entry, [condition], picked=slice(-1, None))
    text = f"{[round(getattr(found, c), 2) for c in method.TERMS]}, condition {conditioned.computed}"
    return Outcome(conditioned.verdict if close else DIFFERS, text)
