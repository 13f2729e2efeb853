#include <gtest/gtest.h>

#include <vector>

#include "weft/device/host_registry.hpp"
#include "weft/device/kernel_texts.hpp"

using namespace weft::device;

TEST(HostRegistry, KernelsAreFoundByFileNameAndConstants) {
  const HostKernel* kernel = find_host_kernel("vector", "axpy", "real=double");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->argument_sizes, (std::vector<std::size_t>{8, 8, 8, 8}));
  EXPECT_EQ(find_host_kernel("vector", "axpy", "real=half"), nullptr);
  EXPECT_EQ(find_host_kernel("other", "axpy", "real=double"), nullptr);

  std::vector<double> x(300, 2.0), y(300, 1.0);
  long n = 300;
  double a = 3.0;
  const double* xp = x.data();
  double* yp = y.data();
  void* arguments[] = {&n, &a, &xp, &yp};
  kernel->run(arguments, 0, 2);
  for (double value : y) EXPECT_EQ(value, 7.0);
}

TEST(HostRegistry, TheLibraryCarriesTheTextOfItsKernels) {
  bool vector = false, dialect = false;
  for (const KernelText& text : kernel_texts()) {
    const std::string_view body = text.text;
    vector |= text.file == "vector" && body.find("WEFT_KERNEL(axpy") != body.npos;
    dialect |= text.file == "dialect" && body.find("#define WEFT_KERNEL(") != body.npos;
  }
  EXPECT_TRUE(vector);
  EXPECT_TRUE(dialect);
}
