#pragma once

// TensorFlow's record files, which TensorBoard's are too: per record the length (8 bytes, little-endian), its
// checksum, the bytes, and their checksum. A checksum is the CRC-32C of the bytes (RFC 3720), turned and with a
// constant added, so that checksums of what holds checksums stay useful.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/check_cost.h"
#include "mlbench/base/files.h"

namespace mlbench::tfrecord {

uint32_t masked_checksum(std::string_view bytes);

// Appends one record to the content of a file.
void append_record(std::string& file, std::string_view bytes);

// Reads a file front to back.
class RecordReader {
 public:
  struct Record {
    int64_t offset = 0;  // of the first of `bytes` in the file
    std::string bytes;
  };

  // Throws IoError when the system refuses; throws UserError where the path is no plain file.
  RecordReader(const std::filesystem::path& path, int64_t most_bytes);

  // The next record; empty at the end of the file. Throws UserError (path, offset, reason) for a wrong checksum, a
  // record that the file ends in, and one of more than `most_bytes`; memory is taken after the length was checked.
  std::optional<Record> next();
  // What comparing the checksums of the records' bytes has cost.
  CheckCost checked() const { return checked_.so_far(); }

 private:
  std::string read(int64_t count);

  std::filesystem::path path_;
  int64_t most_bytes_;
  FileDescriptor file_;
  int64_t size_ = 0, position_ = 0;
  CheckMeter checked_;
};

}  // namespace mlbench::tfrecord
