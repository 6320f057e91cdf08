#include "mlbench/exec/question.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"

namespace mlbench::exec {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kMostBytes = size_t{1} << 20;

// A file in memory for an answer. Nobody has to empty it while the program runs, as a pipe.
FileDescriptor memory_file() {
  FileDescriptor file(memfd_create("answer", MFD_CLOEXEC));
  if (!file) throw_system_error("cannot make a file in memory", errno);
  return file;
}

std::string content_of(const FileDescriptor& file) {
  std::string text(kMostBytes, '\0');
  const ssize_t count = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

std::string trimmed_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Question::Question(const std::vector<std::string>& command, milliseconds limit, int standard_input)
    : limit_(limit), deadline_(steady_clock::now() + limit) {
  for (const std::string& word : command) {
    // The program may stand behind `env --unset=NAME ...`.
    program_ = word;
    if (word != "env" && !word.starts_with("--")) break;
  }
  try {
    output_ = memory_file();
    errors_ = memory_file();
    ProcessOptions options;
    options.arguments = command;
    options.standard_input = standard_input;
    options.die_with_parent = true;
    options.standard_output = output_.get();
    options.standard_error = errors_.get();
    process_ = ChildProcess::start(options);
  } catch (const IoError& error) {
    not_started_ = error.what();
  }
}

Question::~Question() {
  try {
    if (process_ && !process_->wait(milliseconds(0))) process_->stop(milliseconds(0));
  } catch (const IoError&) {
    // The program hangs in the kernel: nothing ends it.
  }
}

std::optional<Answer> Question::answer(milliseconds timeout) {
  if (!process_) return Answer{std::nullopt, "", not_started_};
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
  const auto end = process_->wait(std::clamp(left, milliseconds(0), timeout));
  if (end) return Answer{end, content_of(output_), trimmed_end(content_of(errors_))};
  if (steady_clock::now() < deadline_) return std::nullopt;
  process_->stop(milliseconds(0));
  return Answer{
      std::nullopt, "",
      fmt::format("{} has not answered within {} s", program_, std::chrono::duration<double>(limit_).count())};
}

Answer ask(const std::vector<std::string>& command, milliseconds limit) {
  Question question(command, limit);
  for (;;) {
    if (auto answer = question.answer(limit)) return std::move(*answer);
  }
}

}  // namespace mlbench::exec
