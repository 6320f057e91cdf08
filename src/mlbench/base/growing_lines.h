#pragma once

// Files that others append lines to (logs, spools, what a script records). Such files are read with bounded memory,
// from where the last reader stopped.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace mlbench {

inline constexpr size_t kMostLineBytes = size_t{4} << 20;

// The bytes of a file from `offset` on, at most `most`; "" when there are none or there is no file. Throws SystemError
// when the file cannot be read.
std::string read_from(const std::filesystem::path& file, std::uintmax_t offset, size_t most);

// The file's size in bytes; 0 when there is no file.
int64_t bytes_in(const std::filesystem::path& file);

// The last bytes of a file of any size, at most `most`; "" where there is no plain file.
std::string end_of_file(const std::filesystem::path& file, size_t most);

// How far a reader of lines has come. A cursor may be kept between calls, or longer: it is three numbers.
struct LineCursor {
  int64_t offset = 0;    // everything before it has been read
  bool in_long = false;  // the offset is within a line that is left out
  int64_t left_out = 0;  // how many lines were longer than the limit so far
};

// Passes the complete lines behind the cursor to `take`, without their ends, and moves the cursor. A call reads one
// piece of at most `limit` bytes. A line longer than that is left out up to its end, and counted. Returns whether the
// cursor moved; to read all, the caller repeats the call until it does not.
bool read_lines(const std::filesystem::path& file, LineCursor& cursor,
                const std::function<void(std::string_view)>& take, size_t limit = kMostLineBytes);

}  // namespace mlbench
