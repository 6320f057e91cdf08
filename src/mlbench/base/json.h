#pragma once

// JSON in this project: keys keep the order in which they were written, so that records read well.
// Headers that only pass JSON along include <nlohmann/json_fwd.hpp> instead.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace mlbench {

using Json = nlohmann::ordered_json;

// Reads a whole file. IoError if it cannot be read, UserError (path, line, column, reason) if it is not JSON.
Json read_json_file(const std::filesystem::path& path);

// Writes pretty-printed JSON so that a reader sees the old or the new file, never half of one
// (temporary name in the same folder, fsync, rename, fsync of the folder). IoError if the disk refuses.
void write_json_file(const std::filesystem::path& path, const Json& value);

// One spelling for one value: keys sorted, no white space, shortest round-trip numbers. Input of hashes.
std::string canonical_json(const Json& value);

}  // namespace mlbench
