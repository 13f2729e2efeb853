// How much of the host's memory is still available.
#pragma once

#include <cstdint>
#include <filesystem>

namespace weft::device {

// Bytes that the processes of this node can still allocate, within the limit of their container, whose files (control
// groups, version 2) are in `group`. What a container's page cache holds counts as free.
std::int64_t free_host_bytes(const std::filesystem::path& group = "/sys/fs/cgroup");

}  // namespace weft::device
