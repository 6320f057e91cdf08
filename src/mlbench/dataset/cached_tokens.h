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
#include "mlbench/dataset/column.h"

namespace mlbench::dataset {

inline constexpr int64_t kTokensVersion = 1;  // version of the layout

// The ids that mean the same in every vocabulary (of words of one text: kUnknown and kEnd alone, see TextVocabulary).
inline constexpr int32_t kPad = 0, kUnknown = 1, kBegin = 2, kEnd = 3;

// Thrown where a file is not what was written: it is missing, cut, changed, or of another version. The caller makes the
// file anew.
class DamagedTokens : public IoError {
 public:
  using IoError::IoError;
};

// A mapped file of tokens, read-only. Copies share the mapping.
class CachedTokens {
 public:
  // Throws DamagedTokens naming path and reason, or IoError where the file cannot be read. The constructor checks
  // header, size and offsets; only verify() checks the hash and that every id is within the vocabulary.
  explicit CachedTokens(const std::filesystem::path& path);

  void verify() const;       // reads the whole file, about 0.6 s per GB; throws DamagedTokens
  void verify_once() const;  // verify(), but once per host and build (verified_mark.h)

  int64_t records() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t longest() const { return longest_; }  // length of the longest record, in tokens
  const std::string& sha256() const { return sha256_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  // All records under `name`, as views of the mapping. The result of keep() keeps the mapping alive.
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

// Writes a file of tokens in one pass, with 512 KiB in memory, however many tokens and records there are. Readers see
// the file only after commit(); without commit() nothing is left. Precondition: no other writer has the same path
// (callers hold the lock of the cache). Throws IoError where the disk refuses.
class TokenWriter {
 public:
  // Precondition: `vocabulary` is positive, and all ids given later are in [0, vocabulary).
  TokenWriter(std::filesystem::path path, int64_t vocabulary);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  void append(std::span<const int32_t> tokens);  // adds `tokens` to the record under way
  void end_record();
  void add(std::span<const int32_t> record) {
    append(record);
    end_record();
  }
  // Ends the record under way if it has tokens, flushes the file to the disk and renames it to its path. Returns the
  // SHA-256 that the header holds, as 64 hexadecimal digits.
  std::string commit();

 private:
  void flush();
  void flush_offsets();
  void add_offsets();  // copies the offsets behind the tokens

  std::filesystem::path path_;
  std::string temporary_;
  int64_t vocabulary_;
  FileDescriptor fd_;
  FileDescriptor offsets_fd_;  // holds offsets until commit(): a file beside it that is unlinked
  std::vector<int32_t> buffer_;
  std::vector<int64_t> offsets_{0};  // offsets not yet written to `offsets_fd_`
  int64_t tokens_ = 0, longest_ = 0, records_ = 0;
  int64_t begin_ = 0;  // where the record under way begins, in tokens
};

}  // namespace mlbench::dataset
