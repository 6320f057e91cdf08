#include "mlbench/report/archive/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/errors.h"

namespace mlbench::report {

namespace {

void unpack_file(const std::filesystem::path& packed, const std::filesystem::path& to, const Input& input) {
  const std::unique_ptr<archive, decltype(&archive_read_free)> reader(archive_read_new(), archive_read_free);
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_raw(reader.get());
  const auto expect = [&](bool good) {
    if (good) return;
    const char* reason = archive_error_string(reader.get());
    throw UserError(fmt::format("{}: {}", packed.string(), reason != nullptr ? reason : "it cannot be unpacked"));
  };
  std::array<char, 1 << 16> buffer{};
  expect(archive_read_open_filename(reader.get(), packed.c_str(), buffer.size()) == ARCHIVE_OK);
  archive_entry* entry = nullptr;
  expect(archive_read_next_header(reader.get(), &entry) == ARCHIVE_OK);
  expect(archive_filter_code(reader.get(), 0) != ARCHIVE_FILTER_NONE);
  AtomicFile file(to);
  uint64_t total = 0;
  for (la_ssize_t n = 0; (n = archive_read_data(reader.get(), buffer.data(), buffer.size())) != 0;) {
    expect(n > 0);
    total += static_cast<uint64_t>(n);
    if (total > input.most_bytes) refuse_size(packed.string(), total, input);
    file.write(std::string_view(buffer.data(), static_cast<size_t>(n)));
  }
  file.commit();
}

}  // namespace

bool unpack(const std::filesystem::path& file, const std::filesystem::path& to, const Input& input) {
  for (const char* suffix : {".xz", ".gz"}) {
    const std::filesystem::path packed = file.string() + suffix;
    if (!std::filesystem::exists(packed)) continue;
    unpack_file(packed, to, input);
    return true;
  }
  return false;
}

}  // namespace mlbench::report
