#include "weft/mpi/probe.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "weft/device/device.hpp"
#include "weft/mpi/comm.hpp"

extern char** environ;

namespace weft::mpi {
namespace {

// Whether a launcher (Hydra, PMIx, Slurm, PALS, Flux or JSM) sets this variable to tell a process its rank in a job.
// The user's settings (OMPI_MCA_*, OMPI_ALLOW_*, MPIR_CVAR_*, UCX_*) do not belong to the job.
bool belongs_to_job(std::string_view variable) {
  for (const std::string_view prefix :
       {"PMI_", "PMIX_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_FIRST_", "OMPI_APP_", "OMPI_NUM_APP_", "PRTE_",
        "HYDRA_", "HYDI_", "MPI_LOCAL", "SLURM_", "PALS_", "FLUX_", "JSM_", "MPIEXEC_", "GFORKER_"}) {
    if (variable.starts_with(prefix)) return prefix != "PRTE_" || !variable.starts_with("PRTE_MCA_");
  }
  return false;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

ProbeResult run_probe(const std::vector<std::string>& command, double seconds) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!belongs_to_job(*entry)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);

  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);  // close the launcher's sockets
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // its own process group, so that its children can be ended with it
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  const int error =
      posix_spawn(&child, command.at(0).c_str(), &actions, &attributes, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_ends[1]);
  if (error != 0) {
    close(pipe_ends[0]);
    return {false, "cannot start " + command[0] + ": " + std::strerror(error)};
  }

  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::string output;
  int status = 0;
  bool late = false;
  for (bool open = true;;) {
    pollfd ready{open ? pipe_ends[0] : -1, POLLIN, 0};
    if (poll(&ready, 1, 10) > 0) {
      std::array<char, 4096> block{};
      const ssize_t count = read(pipe_ends[0], block.data(), block.size());
      if (count > 0) output.append(block.data(), static_cast<std::size_t>(count));
      if (count == 0) open = false;
      if (count > 0) continue;
    }
    if (waitpid(child, &status, WNOHANG) == child) break;
    if (std::chrono::steady_clock::now() > limit) {
      late = true;
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
  }
  close(pipe_ends[0]);
  if (late) return {false, "it took longer than " + std::to_string(static_cast<int>(seconds)) + " s"};
  if (WIFSIGNALED(status)) {
    return {false,
            "it was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")"};
  }
  if (WEXITSTATUS(status) != 0) {
    const std::string line = last_line(output);
    return {false,
            "it failed with exit code " + std::to_string(WEXITSTATUS(status)) + (line.empty() ? "" : ": " + line)};
  }
  return {true, last_line(output)};
}

void prove_transfer(const std::string& which, int ordinal) {
  const Comm self = Comm::self();
  const auto device = device::open(which, ordinal);
  // Three sizes, because eager and rendezvous protocols treat memory differently.
  for (const std::size_t words : {std::size_t{1}, std::size_t{1} << 13, std::size_t{1} << 19}) {
    std::vector<std::int64_t> sent(words);
    std::iota(sent.begin(), sent.end(), std::int64_t{1});
    const device::Array<std::int64_t> from(device, std::span<const std::int64_t>(sent));
    device::Array<std::int64_t> to(device, words);
    to.zero();
    check(MPI_Sendrecv(from.data(), static_cast<int>(words), MPI_INT64_T, 0, 1, to.data(), static_cast<int>(words),
                       MPI_INT64_T, 0, 1, self.get(), MPI_STATUS_IGNORE),
          "MPI_Sendrecv");
    if (to.download() != sent) throw std::runtime_error("the received data differ from those sent");
  }
}

}  // namespace weft::mpi
