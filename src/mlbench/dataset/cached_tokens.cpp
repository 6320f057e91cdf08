#include "mlbench/dataset/cached_tokens.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "mlbench/base/system_error.h"
#include "mlbench/dataset/verified_mark.h"

namespace mlbench::dataset {

static_assert(std::endian::native == std::endian::little, "the file is little endian, and mapped");

namespace {

constexpr size_t kTokensAlignment = 64;
constexpr size_t kBufferedTokens = 65536;
constexpr size_t kBufferedOffsets = 32768;

struct TokensHeader {
  char magic[16];
  int64_t version, records, tokens, vocabulary, longest;
  char sha256[64];
  char zeros[8];
};
static_assert(sizeof(TokensHeader) == 128);
constexpr std::string_view kTokensMagic("mlbench tokens\0\0", 16);

// The bytes of the header that the hash covers.
std::string_view head_of(const TokensHeader& header) {
  return {reinterpret_cast<const char*>(&header), offsetof(TokensHeader, sha256)};
}

size_t offsets_begin(size_t tokens) {
  const size_t end = sizeof(TokensHeader) + tokens * sizeof(int32_t);
  return (end + kTokensAlignment - 1) / kTokensAlignment * kTokensAlignment;
}

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

TokensHeader make_header(int64_t records, int64_t tokens, int64_t vocabulary, int64_t longest) {
  TokensHeader header{};
  std::memcpy(header.magic, kTokensMagic.data(), kTokensMagic.size());
  header.version = kTokensVersion;
  header.records = records;
  header.tokens = tokens;
  header.vocabulary = vocabulary;
  header.longest = longest;
  return header;
}

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& reason) {
  throw DamagedTokens(fmt::format("{} is damaged: {}", path.string(), reason));
}

}  // namespace

CachedTokens::CachedTokens(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw DamagedTokens(path.string() + " is not there");
  file_ = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file_->bytes();
  TokensHeader header{};
  if (bytes.size() < sizeof header) damaged(path, fmt::format("{} bytes are no header", bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != kTokensMagic) damaged(path, "it is no file of tokens");
  if (header.version != kTokensVersion) {
    damaged(path, fmt::format("layout {} instead of {}", header.version, kTokensVersion));
  }
  // A damaged count may be anything, so counts are compared before they are multiplied.
  const auto most = static_cast<int64_t>(bytes.size());
  if (header.records < 0 || header.records >= most || header.tokens < 0 || header.tokens >= most ||
      header.vocabulary <= 0) {
    damaged(path, "counts that the file cannot hold");
  }
  const auto tokens = static_cast<size_t>(header.tokens), offsets = static_cast<size_t>(header.records) + 1;
  const size_t expected = offsets_begin(tokens) + offsets * sizeof(int64_t);
  if (bytes.size() != expected) damaged(path, fmt::format("{} bytes instead of {}", bytes.size(), expected));
  vocabulary_ = header.vocabulary;
  longest_ = header.longest;
  sha256_.assign(header.sha256, sizeof header.sha256);
  tokens_ = {reinterpret_cast<const int32_t*>(bytes.data() + sizeof header), tokens};
  offsets_ = {reinterpret_cast<const int64_t*>(bytes.data() + offsets_begin(tokens)), offsets};
  if (offsets_.front() != 0 || offsets_.back() != header.tokens || !std::ranges::is_sorted(offsets_)) {
    damaged(path, "its index does not cover its tokens");
  }
}

void CachedTokens::verify() const {
  for (const int32_t token : tokens_) {
    if (token < 0 || token >= vocabulary_) {
      damaged(path_, fmt::format("token {} of a vocabulary of {}", token, vocabulary_));
    }
  }
  int64_t longest = 0;
  for (size_t i = 1; i < offsets_.size(); ++i) longest = std::max(longest, offsets_[i] - offsets_[i - 1]);
  if (longest != longest_) damaged(path_, fmt::format("a record of {} tokens instead of {}", longest, longest_));
  Sha256 hash;
  hash.update(head_of(make_header(records(), static_cast<int64_t>(tokens_.size()), vocabulary_, longest_)));
  hash.update(bytes_of(tokens_));
  hash.update(bytes_of(offsets_));
  if (hash.hex() != sha256_) damaged(path_, "its hash does not fit its content");
}

void CachedTokens::verify_once() const {
  check_once(path_, [this] {
    verify();
    return Json(sha256_);
  });
}

TokenWriter::TokenWriter(std::filesystem::path path, int64_t vocabulary)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp"), vocabulary_(vocabulary) {
  MLBENCH_CHECK(vocabulary > 0, fmt::format("a vocabulary of {}", vocabulary));
  fd_ = FileDescriptor(open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd_) throw_system_error("cannot write " + temporary_, errno);
  const std::string beside = temporary_ + ".offsets";
  offsets_fd_ = FileDescriptor(open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!offsets_fd_) throw_system_error("cannot write " + beside, errno);
  unlink(beside.c_str());
  buffer_.reserve(kBufferedTokens);
  write_all(fd_.get(), std::string(sizeof(TokensHeader), '\0'), temporary_);
}

TokenWriter::~TokenWriter() {
  if (fd_) unlink(temporary_.c_str());
}

void TokenWriter::append(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    MLBENCH_CHECK(token >= 0 && token < vocabulary_, fmt::format("token {} of a vocabulary of {}", token, vocabulary_));
    if (buffer_.size() == kBufferedTokens) flush();
    buffer_.push_back(token);
  }
  tokens_ += static_cast<int64_t>(tokens.size());
}

void TokenWriter::end_record() {
  longest_ = std::max(longest_, tokens_ - begin_);
  begin_ = tokens_;
  ++records_;
  if (offsets_.size() == kBufferedOffsets) flush_offsets();
  offsets_.push_back(tokens_);
}

void TokenWriter::flush() {
  write_all(fd_.get(), bytes_of(buffer_), temporary_);
  buffer_.clear();
}

void TokenWriter::flush_offsets() {
  write_all(offsets_fd_.get(), bytes_of(offsets_), temporary_ + ".offsets");
  offsets_.clear();
}

void TokenWriter::add_offsets() {
  flush_offsets();
  std::vector<char> block(kBufferedOffsets * sizeof(int64_t));
  for (off_t at = 0;;) {
    const ssize_t count = pread(offsets_fd_.get(), block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("cannot read " + temporary_ + ".offsets", errno);
    if (count == 0) return;
    write_all(fd_.get(), {block.data(), static_cast<size_t>(count)}, temporary_);
    at += count;
  }
}

std::string TokenWriter::commit() {
  if (tokens_ > begin_) end_record();
  flush();
  const size_t end = sizeof(TokensHeader) + static_cast<size_t>(tokens_) * sizeof(int32_t);
  write_all(fd_.get(), std::string(offsets_begin(static_cast<size_t>(tokens_)) - end, '\0'), temporary_);
  add_offsets();

  // The counts precede the tokens in the hash, and are known only now, so the tokens are read back.
  TokensHeader header = make_header(records_, tokens_, vocabulary_, longest_);
  Sha256 hash;
  hash.update(head_of(header));
  {
    const MappedFile written(temporary_);
    hash.update(written.bytes().subspan(sizeof header, static_cast<size_t>(tokens_) * sizeof(int32_t)));
    hash.update(written.bytes().subspan(offsets_begin(static_cast<size_t>(tokens_))));
  }
  const std::string digits = hash.hex();
  std::memcpy(header.sha256, digits.data(), sizeof header.sha256);
  if (lseek(fd_.get(), 0, SEEK_SET) != 0) throw_system_error("cannot write " + temporary_, errno);
  write_all(fd_.get(), {reinterpret_cast<const char*>(&header), sizeof header}, temporary_);

  sync_file(fd_.get(), temporary_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) throw_system_error("cannot rename to " + path_.string(), errno);
  fd_.reset();
  sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
  return digits;
}

}  // namespace mlbench::dataset
