#include "mlbench/exec/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/growing_lines.h"
#include "mlbench/base/utf8.h"
#include "mlbench/guard/launcher_words.h"

namespace mlbench::exec {
namespace {

constexpr size_t kMostLastWords = 2000;

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-./:,+=@%").find(c) != std::string_view::npos;
  };
  // zsh replaces "=ls" by the path of ls.
  if (!word.empty() && word.front() != '=' && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace

bool gives_own_gpu(const LaunchRequest& request) {
  const std::map<std::string, std::string>& said = request.environment;
  const bool by_user = said.contains(kVisibleGpus) || said.contains(std::string(guard::kShield) + kVisibleGpus);
  return request.gpu && request.rank_words && !by_user;
}

void check_utf8(const LaunchRequest& request, const std::string& taker) {
  const auto check = [&](const std::string& text, const std::string& what) {
    if (is_utf8(text)) return;
    throw UserError(fmt::format("{} is no UTF-8, which {} cannot be given: '{}'", what, taker,
                                Json(text).dump(-1, ' ', true, Json::error_handler_t::replace)));
  };
  for (const std::string& word : request.command) check(word, "a word of the command");
  for (const auto& [name, value] : request.environment) check(value, "the value of --env " + name);
  check(request.working_directory.string(), "--work-dir");
  for (const SharedFolder& folder : request.folders) check(folder.path.string(), "the path of a folder");
}

std::string last_words(std::string said) {
  while (said.ends_with('\n')) said.pop_back();
  if (said.size() > kMostLastWords) said.erase(0, said.size() - kMostLastWords);
  return said;
}

std::string last_words_in(const std::filesystem::path& log) {
  try {
    return last_words(end_of_file(log, 2 * kMostLastWords));
  } catch (const IoError&) {
    return "";
  }
}

std::string command_line(const std::map<std::string, std::string>& environment,
                         const std::vector<std::string>& command) {
  std::string line;
  for (const auto& [name, value] : environment) line += name + "=" + (value.empty() ? "" : quoted(value)) + " ";
  for (const std::string& word : command) line += quoted(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

Json Executor::manifest(const std::string& kind, const LaunchRequest& /*request*/, const Json& /*spec*/) const {
  throw UserError(
      fmt::format("--emit {}: the executor '{}' writes no manifests; give --executor kubernetes", kind, name()));
}

}  // namespace mlbench::exec
