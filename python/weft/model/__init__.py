"""What a run would cost on another machine: one module a method. Reads run records and traces, never the solvers."""
