// A question answered by a child process, so that its death is an answer too.
#pragma once

#include <string>
#include <vector>

namespace weft::mpi {

struct ProbeResult {
  bool succeeded = false;  // ended by itself with exit code 0 within the limit
  std::string reason;  // "ended by signal 11 (Segmentation fault)", "took longer than 20 s", its last line of output …
};

// Runs command[0] with its arguments, without the variables by which MPI launchers tell a process that it is part of
// their job (the child is a job of its own), its output kept from the terminal. Kills it after `seconds`.
ProbeResult run_probe(const std::vector<std::string>& command, double seconds);

// Sends and receives `device` memory on MPI_COMM_SELF, sizes from 8 bytes to 4 MiB, and compares. std::runtime_error if
// what arrives is not what was sent. This is what the child does.
void prove_transfer(const std::string& device);

}  // namespace weft::mpi
