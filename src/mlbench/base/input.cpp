#include "mlbench/base/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"

namespace mlbench {

namespace {

// An object keeps its keys in a list, which is searched for each key: n keys cost n^2 / 2 comparisons. The limit is
// about a second.
constexpr uint64_t kMostKeyPairs = 400'000'000;
// An empty text of three bytes takes 64 bytes in memory.
constexpr uint64_t kMostValues = 2'000'000;

// Why a text must not be parsed; null when it may be. Up to the first mistake in the text's grammar this function sees
// the same structure as the parser, and the parser goes no further than that mistake.
const char* structural_fault(std::string_view text) {
  std::array<uint64_t, kDeepestNesting + 1> keys{};
  size_t depth = 0;
  uint64_t pairs = 0, values = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        break;
      case '[':
      case '{':
        if (++depth > kDeepestNesting) return "it is nested deeper than 64 levels";
        keys[depth] = 0;
        if (++values > kMostValues) return "it has more than 2,000,000 values";
        break;
      case ',':
        if (++values > kMostValues) return "it has more than 2,000,000 values";
        break;
      case ']':
      case '}':
        if (depth > 0) --depth;
        break;
      case ':':
        pairs += keys[depth]++;
        if (pairs > kMostKeyPairs) return "its objects have too many keys";
        break;
      default:
        break;
    }
  }
  return nullptr;
}

static_assert(kDeepestNesting == 64 && kMostValues == 2'000'000, "texts above say so");

std::string in_short(std::string_view text) {
  constexpr size_t kMost = 300;  // a library's words may quote the input
  return std::string(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

[[noreturn]] void cannot_read(const std::filesystem::path& path) {
  throw_system_error("cannot read " + path.string(), errno);
}

FileDescriptor open_input(const std::filesystem::path& path, const Input& input) {
  // O_NONBLOCK: opening a pipe without a writer would block for ever.
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd || fstat(fd.get(), &info) != 0) cannot_read(path);
  if (S_ISREG(info.st_mode)) {
    if (static_cast<size_t>(info.st_size) > input.most_bytes) {
      refuse_size(path.string(), static_cast<size_t>(info.st_size), input);
    }
  } else if (S_ISDIR(info.st_mode) || !input.may_be_pipe) {
    throw UserError(fmt::format("{} is {}: expected {}, which is a plain file", path.string(),
                                S_ISDIR(info.st_mode) ? "a folder" : "no plain file", input.what));
  } else {
    fcntl(fd.get(), F_SETFL, 0);
  }
  return fd;
}

}  // namespace

void refuse_size(std::string_view subject, size_t bytes, const Input& input) {
  throw UserError(fmt::format("{} has {} bytes: {} has at most {}", subject, bytes, input.what, input.most_bytes));
}

Json parse_json(std::string_view text, const Input& input) {
  if (text.size() > input.most_bytes) refuse_size("the text", text.size(), input);
  if (const char* fault = structural_fault(text)) {
    throw UserError(fmt::format("not acceptable as {}: {}", input.what, fault));
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw UserError(fmt::format("not valid JSON: {}", in_short(error.what())));
  }
}

std::optional<Json> try_parse_json(std::string_view text, const Input& input) {
  if (text.size() > input.most_bytes || structural_fault(text) != nullptr) return std::nullopt;
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

std::string read_file(const std::filesystem::path& path, const Input& input) {
  const FileDescriptor fd = open_input(path, input);
  std::string content;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) cannot_read(path);
    if (count == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(count));
    // The file may grow while it is read, and a pipe has no size.
    if (content.size() > input.most_bytes) refuse_size(path.string(), content.size(), input);
  }
}

std::optional<int64_t> integer_of(const Json& value) {
  constexpr int64_t kMost = 100'000'000'000'000'000;
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMost}) return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= -kMost && number <= kMost ? std::optional(number) : std::nullopt;
}

int64_t integer_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  const auto number = found == object.end() ? std::nullopt : integer_of(*found);
  if (!number) throw UserError(fmt::format("'{}' is no whole number of at most 10^17", name));
  return *number;
}

std::string text_member(const Json& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Json read_json_file(const std::filesystem::path& path, const Input& input) {
  const std::string text = read_file(path, input);
  try {
    return parse_json(text, input);
  } catch (const UserError& error) {
    throw UserError(path.string() + ": " + error.what());
  }
}

void write_json_file(const std::filesystem::path& path, const Json& value, const Input& input) {
  const std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (text.size() > input.most_bytes) refuse_size(path.string(), text.size(), input);
  write_file_atomically(path, text);
}

}  // namespace mlbench
