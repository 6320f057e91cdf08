#pragma once

// Files that others append lines to (logs, spools, what a script records), read with bounded memory from where the last
// reader stopped.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace mlbench {

inline constexpr size_t kMostLineBytes = size_t{4} << 20;

// What lies in a file from `offset` on, at most `most` bytes; "" when there is nothing or no file. SystemError when it
// cannot be read.
std::string read_from(const std::filesystem::path& file, std::uintmax_t offset, size_t most);

// How many bytes a file has; 0 when there is none.
int64_t bytes_in(const std::filesystem::path& file);

// The last bytes of a file of any size, at most so many; "" where no plain file is.
std::string end_of_file(const std::filesystem::path& file, size_t most);

// Where a reader of lines is. Kept between calls, or longer: three numbers.
struct LineCursor {
  int64_t offset = 0;    // everything before it was read
  bool in_long = false;  // within a line that is left out
  int64_t left_out = 0;  // lines longer than the limit, so far
};

// Hands out the complete lines behind the cursor, without their ends, and moves it; reads one piece of at most `limit`
// bytes. A line longer than that is left out up to its end, and counted. Returns whether the cursor moved: call again
// until it does not.
bool read_lines(const std::filesystem::path& file, LineCursor& cursor,
                const std::function<void(std::string_view)>& take, size_t limit = kMostLineBytes);

}  // namespace mlbench
