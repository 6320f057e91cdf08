#include "mlbench/dataset/lmdb_entries.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/system_error.h"
#include "mlbench/dataset/program_beside.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

std::pair<FileDescriptor, FileDescriptor> make_pipe() {  // the end to read from, the end to write to
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system_error("cannot make a pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

fs::path lmdb_program() { return program_beside("mlbench-lmdb"); }

LmdbEntries::LmdbEntries(const fs::path& file) : file_(file) {
  const fs::path program = lmdb_program();
  if (!fs::exists(program)) {
    throw UserError(
        fmt::format("{} is not there: databases of LMDB are read by it. It is built where liblmdb is (Debian: "
                    "liblmdb-dev)",
                    program.string()));
  }
  auto [entries, entries_in] = make_pipe();
  auto [errors, errors_in] = make_pipe();
  entries_ = std::move(entries);
  errors_ = std::move(errors);
  ProcessOptions options;
  options.arguments = {program.string(), file.string()};
  options.standard_output = entries_in.get();
  options.standard_error = errors_in.get();
  options.die_with_parent = true;
  program_ = ChildProcess::start(options);
}

LmdbEntries::~LmdbEntries() {
  if (program_) program_->stop(std::chrono::milliseconds(0));
}

size_t LmdbEntries::read_some(char* out, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = read(entries_.get(), out + done, bytes - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error("cannot read from " + lmdb_program().string(), errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

void LmdbEntries::read_exactly(char* out, size_t bytes) {
  if (read_some(out, bytes) == bytes) return;
  expect_success();
  throw InternalError("mlbench-lmdb ended within an entry");
}

void LmdbEntries::expect_success() {
  std::array<char, 1000> words;
  const ssize_t said = read(errors_.get(), words.data(), words.size());
  std::optional<ProcessEnd> end;
  while (!end) end = program_->wait(std::chrono::seconds(60));
  program_.reset();
  if (end->signal) {
    throw UserError(fmt::format("{} is a damaged database of LMDB: mlbench-lmdb was killed by signal {} within it",
                                file_.string(), *end->signal));
  }
  std::string_view why(words.data(), said > 0 ? static_cast<size_t>(said) : 0);
  if (why.ends_with('\n')) why.remove_suffix(1);
  if (end->code != 0) {
    throw UserError(fmt::format("{} is no whole database of LMDB: {}", file_.string(), printable(why)));
  }
}

std::optional<LmdbEntries::Entry> LmdbEntries::next() {
  if (!program_) return std::nullopt;
  std::array<uint32_t, 2> sizes{};  // of key and value
  char* const head = reinterpret_cast<char*>(sizes.data());
  const size_t begun = read_some(head, 1);
  if (begun == 0) {
    expect_success();
    return std::nullopt;
  }
  read_exactly(head + begun, sizeof sizes - begun);
  const auto [key, value] = sizes;
  for (const uint32_t size : sizes) {
    if (size > inputs::kStoredRow.most_bytes) refuse_size(file_.string(), size, inputs::kStoredRow);
  }
  buffer_.resize(size_t{key} + value);
  read_exactly(buffer_.data(), buffer_.size());
  return Entry{{buffer_.data(), key}, {buffer_.data() + key, value}};
}

}  // namespace mlbench::dataset
