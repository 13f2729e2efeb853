// The host's memory: how much is available, and the allocation of large arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace weft::device {

// Bytes that the processes of this node can still allocate within the limit of their container. `group` is the folder
// of the container's control group (version 2). The page cache of a container counts as free.
std::int64_t free_host_bytes(const std::filesystem::path& group = "/sys/fs/cgroup");

// Requests large pages for memory that was allocated but not yet written. For arrays of many megabytes, providing small
// pages takes the system longer than filling them during set-up.
void prefer_large_pages(void* memory, std::size_t bytes);

// A vector of `size` copies of `value`, in large pages if it is big enough to benefit.
template <class T>
std::vector<T> large_vector(std::size_t size, const T& value = {}) {
  std::vector<T> vector;
  vector.reserve(size);
  prefer_large_pages(vector.data(), size * sizeof(T));
  vector.resize(size, value);
  return vector;
}

}  // namespace weft::device
