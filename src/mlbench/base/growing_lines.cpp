#include "mlbench/base/growing_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"

namespace mlbench {

namespace fs = std::filesystem;

std::string read_from(const fs::path& path, std::uintmax_t offset, size_t most) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a pipe would block
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return "";
    throw_system_error("cannot read " + path.string(), errno);
  }
  std::string text;
  while (text.size() < most) {
    const size_t before = text.size();
    text.resize(std::min(most, before + (size_t{1} << 16)));
    const ssize_t n =
        pread(file.get(), text.data() + before, text.size() - before, static_cast<off_t>(offset + before));
    const int error = errno;
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && error != EINTR) throw_system_error("cannot read " + path.string(), error);
    if (n == 0) break;
  }
  return text;
}

int64_t bytes_in(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::string end_of_file(const fs::path& file, size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return "";
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? "" : read_from(file, size - std::min<std::uintmax_t>(most, size), most);
}

bool read_lines(const fs::path& file, LineCursor& cursor, const std::function<void(std::string_view)>& take,
                size_t limit) {
  const std::string text = read_from(file, static_cast<std::uintmax_t>(cursor.offset), limit);
  size_t used = 0;
  for (size_t end; (end = text.find('\n', used)) != std::string::npos; used = end + 1) {
    if (!cursor.in_long) take(std::string_view(text).substr(used, end - used));
    cursor.in_long = false;
  }
  if (used == 0 && text.size() == limit && !cursor.in_long) {
    cursor.in_long = true;
    ++cursor.left_out;
  }
  if (cursor.in_long) used = text.size();  // the rest of a long line is not waited for
  cursor.offset += static_cast<int64_t>(used);
  return used > 0;
}

}  // namespace mlbench
