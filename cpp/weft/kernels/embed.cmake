# cmake -DOUTPUT=… -DFILES=a.hpp;b.hpp -P embed.cmake: the text of every file as a C++ string.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"kernel_text(${text})kernel_text\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"weft/device/kernel_texts.hpp\"

namespace weft::device {
namespace {
constexpr KernelText texts[] = {
${entries}};
}  // namespace
std::span<const KernelText> kernel_texts() { return texts; }
}  // namespace weft::device
")
