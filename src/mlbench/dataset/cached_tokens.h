#pragma once

// Token ids of many records in one mapped file: a side of a parallel corpus, or a whole text as one record.
//
// Layout (little endian; every section at a multiple of 64):
//   0     header, 128 bytes: magic "mlbench tokens\0\0", int64 version, records, tokens, vocabulary, longest record;
//         SHA-256 (64 hexadecimal digits) over the header before it, the tokens and the offsets; zeros
//   128   tokens   int32 [tokens], those of all records back to back
//   then  offsets  int64 [records + 1]: record i is tokens [offsets[i], offsets[i + 1])

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"

namespace mlbench::dataset {

inline constexpr int64_t kTokensVersion = 1;  // of the layout

// The ids that mean the same in every vocabulary.
inline constexpr int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;

// Views of one file's records. The mapping outlives them.
struct TokenColumn {
  std::string name;                  // "source", "target"; "tokens" of a text
  std::span<const int32_t> tokens;   // of all records
  std::span<const int64_t> offsets;  // [records + 1]

  int64_t records() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t length(int64_t record) const {
    return offsets[static_cast<size_t>(record) + 1] - offsets[static_cast<size_t>(record)];
  }
  std::span<const int32_t> record(int64_t number) const {
    return tokens.subspan(static_cast<size_t>(offsets[static_cast<size_t>(number)]),
                          static_cast<size_t>(length(number)));
  }
};

// The file is not what was written: cut, changed, of another version or no such file at all. Make it anew.
class DamagedTokens : public IoError {
 public:
  using IoError::IoError;
};

// A mapped file, read-only. Copies share the mapping.
class CachedTokens {
 public:
  // DamagedTokens naming path and reason; IoError where it cannot be read. Looks at header, size and offsets; at all
  // that the hash covers, and whether ids are within the vocabulary, only in verify().
  explicit CachedTokens(const std::filesystem::path& path);

  void verify() const;       // DamagedTokens. About 0.6 s per GB.
  void verify_once() const;  // once per host and build (verified_mark.h)

  int64_t records() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t longest() const { return longest_; }  // tokens of the longest record
  const std::string& sha256() const { return sha256_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  // With views of the mapping, which keep() keeps alive.
  TokenColumn column(std::string name) const { return {std::move(name), tokens_, offsets_}; }
  std::shared_ptr<const void> keep() const { return file_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  int64_t vocabulary_ = 0, longest_ = 0;
  std::string sha256_;
  std::span<const int32_t> tokens_;
  std::span<const int64_t> offsets_;
};

// Writes such a file in one pass; it keeps 512 KiB in memory, however many tokens and records there are. Readers see
// nothing before commit(); without it nothing is left. One writer per path: callers hold the lock of the cache.
class TokenWriter {
 public:
  // Ids are in [0, vocabulary).
  TokenWriter(std::filesystem::path path, int64_t vocabulary);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void append(std::span<const int32_t> tokens);  // to the record under way
  void end_record();
  void add(std::span<const int32_t> record) {
    append(record);
    end_record();
  }
  // Ends the record under way, if it has tokens. Flushed to the disk and renamed. Gives the hash.
  std::string commit();

 private:
  void flush();
  void flush_offsets();
  void add_offsets();  // behind the tokens

  std::filesystem::path path_;
  std::string temporary_;
  int64_t vocabulary_;
  FileDescriptor fd_;
  FileDescriptor offsets_fd_;  // of a file beside it that has no name any more
  std::vector<int32_t> buffer_;
  std::vector<int64_t> offsets_{0};  // not in that file yet
  int64_t tokens_ = 0, longest_ = 0, records_ = 0;
  int64_t begin_ = 0;  // of the record under way
};

}  // namespace mlbench::dataset
