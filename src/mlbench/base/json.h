#pragma once

// The JSON type of this project. Its keys keep the order in which they were written, so that records read well. Headers
// that only pass JSON along include <nlohmann/json_fwd.hpp> instead.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace mlbench {

using Json = nlohmann::ordered_json;

// Reads a file. Throws IoError if it cannot be read, and UserError (path, line, column, reason) if it is not JSON.
Json read_json_file(const std::filesystem::path& path);

// Writes pretty-printed JSON as write_file_atomically() of files.h does: a reader sees the old or the new file, never
// half of one. Throws IoError if the disk refuses.
void write_json_file(const std::filesystem::path& path, const Json& value);

// The one spelling of a value, of which hashes are computed: sorted keys, no white space, and the shortest numbers that
// read back as the same value.
std::string canonical_json(const Json& value);

}  // namespace mlbench
