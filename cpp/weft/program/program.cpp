#include "weft/program/program.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "weft/kernels/program_operations.hpp"

namespace weft::program {

const std::vector<Operation>& operations() {
  static const std::vector<Operation> list{{"x", 0},
                                           {"y", 0},
                                           {"z", 0},
                                           {"t", 0},
                                           {"constant", 0},
                                           {"swap", 2},
                                           {"where", 3},
#define WEFT_PROGRAM_ENTRY(name, value) {#name, 1},
                                           WEFT_PROGRAM_UNARY(WEFT_PROGRAM_ENTRY)
#undef WEFT_PROGRAM_ENTRY
#define WEFT_PROGRAM_ENTRY(name, value) {#name, 2},
                                               WEFT_PROGRAM_BINARY(WEFT_PROGRAM_ENTRY)
#undef WEFT_PROGRAM_ENTRY
  };
  return list;
}

Code::Code(std::vector<std::int32_t> operations, std::vector<double> constants)
    : operations_(std::move(operations)), constants_(std::move(constants)), depth_(0) {
  const std::vector<Operation>& known = program::operations();
  int top = 0;
  std::size_t used = 0;
  for (const std::int32_t code : operations_) {
    if (code < 0 || code >= program_operations)
      throw std::invalid_argument("program: unknown operation " + std::to_string(code));
    const Operation& operation = known[code];
    if (top < operation.takes)
      throw std::invalid_argument("program: " + operation.name + " takes " + std::to_string(operation.takes) +
                                  " values, but there are " + std::to_string(top));
    used += code == program_constant ? 1 : 0;
    top += code == program_swap ? 0 : 1 - operation.takes;
    depth_ = std::max(depth_, top);
  }
  if (top != 1) throw std::invalid_argument("program: leaves " + std::to_string(top) + " values, not one");
  if (used != constants_.size())
    throw std::invalid_argument("program: uses " + std::to_string(used) + " constants, but has " +
                                std::to_string(constants_.size()));
  if (depth_ > program_depth)
    throw std::invalid_argument("program: keeps " + std::to_string(depth_) + " values at a time; at most " +
                                std::to_string(program_depth) + ": split the expression");
}

bool Code::depends_on_time() const { return std::ranges::count(operations_, program_t) > 0; }

template <class T>
Program<T>::Program(Code code, std::shared_ptr<device::Device> device)
    : code_(std::move(code)),
      operations_(device, code_.operations()),
      constants_(device, code_.constants()),
      run_(device->kernel<T>("program", "run_program")) {}

template <class T>
void Program<T>::evaluate(const T* points, std::int64_t stride, std::int64_t n, double time, T* values,
                          device::Stream& stream) const {
  run_(stream, (n + program_threads - 1) / program_threads, {program_threads}, n, stride, operations_.size(),
       operations_.data(), constants_.data(), time, points, values);
}

template class Program<float>;
template class Program<double>;

}  // namespace weft::program
