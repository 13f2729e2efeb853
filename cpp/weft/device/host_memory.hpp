// The host's memory: how much is still available, and large arrays in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace weft::device {

// Bytes that the processes of this node can still allocate, within the limit of their container, whose files (control
// groups, version 2) are in `group`. What a container's page cache holds counts as free.
std::int64_t free_host_bytes(const std::filesystem::path& group = "/sys/fs/cgroup");

// Requests large pages for memory that was allocated but not yet written. Of arrays of many megabytes, the system takes
// longer to provide small pages than a set-up takes to fill them.
void prefer_large_pages(void* memory, std::size_t bytes);

// A vector of `size` copies of `value`, in large pages where that pays.
template <class T>
std::vector<T> large_vector(std::size_t size, const T& value = {}) {
  std::vector<T> vector;
  vector.reserve(size);
  prefer_large_pages(vector.data(), size * sizeof(T));
  vector.resize(size, value);
  return vector;
}

}  // namespace weft::device
