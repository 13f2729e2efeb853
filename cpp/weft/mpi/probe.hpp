// Runs a test in a child process, so that even a crash is a result.
#pragma once

#include <string>
#include <vector>

namespace weft::mpi {

struct ProbeResult {
  bool succeeded = false;  // exited with code 0 within the time limit
  std::string reason;  // "ended by signal 11 (Segmentation fault)", "took longer than 20 s", its last line of output …
};

// Runs command[0] with its arguments and captures its output. The variables by which MPI launchers make a process part
// of a job are removed, so that the child is a job of its own. Kills it after `seconds`.
ProbeResult run_probe(const std::vector<std::string>& command, double seconds);

// Sends and receives memory of the `device` with this number on MPI_COMM_SELF, in sizes from 8 bytes to 4 MiB, and
// compares the data. std::runtime_error if the received data differ. The child process calls this.
void prove_transfer(const std::string& device, int ordinal);

}  // namespace weft::mpi
