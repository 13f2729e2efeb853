# cmake -DOUTPUT=… -DFILES=a.hpp;b.hpp -DHOST_HEADERS=weft/a.hpp;… -DFOLDER=cpp -P embed.cmake: the text of every file
# as a C++ string, of kernels by their names and of other headers by their paths.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"kernel_text(${text})kernel_text\"},\n")
endforeach()
set(host_entries "")
foreach(path IN LISTS HOST_HEADERS)
  file(READ ${FOLDER}/${path} text)
  string(APPEND host_entries "    {\"${path}\", R\"kernel_text(${text})kernel_text\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"weft/device/kernel_texts.hpp\"

namespace weft::device {
namespace {
constexpr KernelText texts[] = {
${entries}};
constexpr KernelText host[] = {
${host_entries}};
}  // namespace
std::span<const KernelText> kernel_texts() { return texts; }
std::span<const KernelText> host_texts() { return host; }
}  // namespace weft::device
")
