"""The values of a case of `weft run poisson` as functions of x, y, z."""

from __future__ import annotations

from mpi4py import MPI

from weft import mpi, program
from weft.cases.poisson import PoissonCase
from weft.cases.values import EXACT, Value, function_name
from weft.poisson import Function
from weft.run.functions import checked, read


class Values:
    """Converts the values of a case to functions.

    Construction is collective; raises CollectiveError for a bad Python file.
    """

    def __init__(self, case: PoissonCase, comm: MPI.Intracomm) -> None:
        self.case, self.constants = case, case.constants
        file = case.functions.file
        self.functions = mpi.together(comm, lambda: read(file, case.values())) if file else {}

    def __call__(self, key: str, value: Value) -> Function:
        """A value as a function of arrays x, y, z; "exact" is the case's exact solution."""
        if value == EXACT:
            key, value = "exact", self.case.exact
        if name := function_name(value):
            return checked(key, self.functions[name], 1)
        code = program.compiled(value, self.constants)
        return lambda x, y, z: program.values(code, x, y, z)
