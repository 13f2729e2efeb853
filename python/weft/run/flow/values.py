"""The values of a case of `weft run flow` in the solver's form: programs, or functions of a Python file."""

from __future__ import annotations

from mpi4py import MPI

from weft import _weft, mpi, program
from weft.cases.flow import FlowCase, Vector
from weft.cases.values import EXACT, PYTHON, Value
from weft.flow import Function
from weft.functions import takes_time
from weft.program import compiled
from weft.run.functions import checked, read


class Values:
    """Converts the values of a case to what weft.flow.Solver takes. Construction is collective.

    Raises CollectiveError if the Python file cannot be run, or lacks a function that the case refers to.
    """

    def __init__(self, case: FlowCase, comm: MPI.Intracomm) -> None:
        self.case, self.constants = case, case.constants
        self.functions: dict[str, Function] = {}
        if case.functions.file:
            self.functions = mpi.together(comm, self._read)

    def _read(self) -> dict[str, Function]:
        return read(self.case.functions.file, self.case.values())

    def one(self, key: str, value: Value, exact: Value | None = None) -> _weft.program.Code | Function:
        """A scalar field: a program, or a function of (x, y, z, t). `exact` is the value that "exact" stands for."""
        if value == EXACT and exact is not None:
            value = exact
        if isinstance(value, str) and value.startswith(PYTHON):
            return checked(key, self.functions[value.removeprefix(PYTHON)], 1)
        return compiled(value, self.constants)

    def three(self, key: str, value: Vector, exact: Vector | None = None) -> list[_weft.program.Code] | Function:
        """A vector field: three programs, or a function of (x, y, z, t) that returns three arrays."""
        if value == EXACT and exact is not None:
            value = exact
        if isinstance(value, str):
            return checked(key, self.functions[value.removeprefix(PYTHON)], 3)
        if not any(isinstance(part, str) and (part.startswith(PYTHON) or part == EXACT) for part in value):
            return [compiled(part, self.constants) for part in value]
        parts = [self._function(key, part, exact, index) for index, part in enumerate(value)]
        if all(map(self._steady, value)):
            return lambda x, y, z: [part(x, y, z, 0.0) for part in parts]
        return lambda x, y, z, t: [part(x, y, z, t) for part in parts]

    def _steady(self, value: Value) -> bool:
        """Whether a component is constant in time; False for those of an exact solution, which are not examined."""
        if not isinstance(value, str):
            return True
        if value.startswith(PYTHON):
            return not takes_time(self.functions[value.removeprefix(PYTHON)])
        return value != EXACT and not compiled(value, self.constants).depends_on_time

    def function(self, key: str, value: Value | Vector, components: int) -> Function:
        """Values at any points, on the host: f(x, y, z, t) returns an array, or a list of three."""
        if isinstance(value, tuple):
            parts = [self._function(key, part, None, index) for index, part in enumerate(value)]
            return lambda x, y, z, t: [part(x, y, z, t) for part in parts]
        if components == 3 and isinstance(value, str):
            return checked(key, self.functions[value.removeprefix(PYTHON)], 3)
        return self._function(key, value, None, 0)

    def _function(self, key: str, value: Value, exact: Vector | None, index: int) -> Function:
        """A component on the host."""
        if value == EXACT and exact is not None:
            if isinstance(exact, str):
                whole = checked(key, self.functions[exact.removeprefix(PYTHON)], 3)
                return lambda x, y, z, t: whole(x, y, z, t)[index]
            value = exact[index]
        if isinstance(value, str) and value.startswith(PYTHON):
            return checked(key, self.functions[value.removeprefix(PYTHON)], 1)
        code = compiled(value, self.constants)
        return lambda x, y, z, t: program.values(code, x, y, z, t)
