#include "mlbench/base/build_info.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "mlbench/base/generated/build_values.h"
#include "mlbench/base/generated/git_describe.h"

namespace mlbench {
namespace {

template <typename T>
bool read_at(std::ifstream& in, std::uint64_t offset, T* out, std::size_t count = 1) {
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(count * sizeof(T)));
  return in.good();
}

std::size_t padded(std::size_t size) { return (size + 3) / 4 * 4; }

std::optional<std::string> find_build_id(std::string_view notes) {
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t text = sizeof note + padded(note.n_namesz);
    if (notes.size() < text + note.n_descsz) return {};
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof note, note.n_namesz) == std::string_view("GNU\0", 4)) {
      std::string hex;
      for (const unsigned char byte : notes.substr(text, note.n_descsz)) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
      }
      return hex;
    }
    notes.remove_prefix(std::min(notes.size(), text + padded(note.n_descsz)));
  }
  return {};
}

}  // namespace

std::optional<std::string> elf_build_id(const std::filesystem::path& binary) {
  std::ifstream in(binary, std::ios::binary);
  Elf64_Ehdr header;
  if (!read_at(in, 0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!read_at(in, header.e_phoff, segments.data(), segments.size())) return {};
  for (const Elf64_Phdr& segment : segments) {
    constexpr std::uint64_t kMostBytes = 1 << 16;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!read_at(in, segment.p_offset, notes.data(), notes.size())) return {};
    if (auto id = find_build_id(notes)) return id;
  }
  return {};
}

const BuildInfo& build_info() {
  static const BuildInfo info{
      .version = MLBENCH_VERSION,
      .git_describe = MLBENCH_GIT_DESCRIBE,
      .build_id = elf_build_id("/proc/self/exe").value_or("unknown"),
      .compiler = MLBENCH_COMPILER,
      .build_type = MLBENCH_BUILD_TYPE,
      .libraries = MLBENCH_LIBRARIES,
  };
  return info;
}

}  // namespace mlbench
