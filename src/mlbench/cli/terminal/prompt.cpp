#include "mlbench/cli/terminal/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/cli/context.h"

namespace mlbench::cli {

namespace {

using ReadLine = std::function<std::optional<std::string>()>;

std::string next_line(const std::string& title, const ReadLine& read_line) {
  auto answer = read_line();
  if (!answer) throw UserError("no answer to '" + title + "': give it as an option, see mlbench run --help");
  return std::move(*answer);
}

}  // namespace

std::string ask(const std::string& title, const std::vector<Choice>& choices, const std::string& preset, std::FILE* out,
                const std::function<std::optional<std::string>()>& read_line) {
  MLBENCH_CHECK(!choices.empty(), "nothing to choose from");
  size_t width = 0;
  for (const Choice& choice : choices) width = std::max(width, choice.value.size());
  tell(out, title + ":\n");
  for (size_t i = 0; i < choices.size(); ++i) {
    tell(out, fmt::format("  {}  {:<{}}  {}\n", i, choices[i].value, width, choices[i].text));
  }
  const auto known = [&](const std::string& value) {
    return std::any_of(choices.begin(), choices.end(), [&](const Choice& choice) { return choice.value == value; });
  };
  const std::string default_value = known(preset) ? preset : choices.front().value;
  for (;;) {
    tell(out, fmt::format("{} [{}]: ", title, default_value));
    const std::string answer = next_line(title, read_line);
    if (answer.empty()) return default_value;
    if (known(answer)) return answer;
    const bool digits = std::all_of(answer.begin(), answer.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits && answer.size() < 6 && std::stoul(answer) < choices.size()) return choices[std::stoul(answer)].value;
    tell(out, fmt::format("'{}' is none of these: a number from 0 to {}, or a name\n", answer, choices.size() - 1));
  }
}

std::string ask_text(const std::string& title, const std::string& preset, std::FILE* out, const ReadLine& read_line,
                     const std::function<std::string(const std::string& line)>& complaint) {
  for (;;) {
    tell(out, preset.empty() ? title + ": " : fmt::format("{} [{}]: ", title, preset));
    std::string answer = next_line(title, read_line);
    if (answer.empty()) answer = preset;
    const std::string wrong = complaint(answer);
    if (wrong.empty()) return answer;
    tell(out, wrong + "\n");
  }
}

std::optional<std::string> read_input_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

namespace {
std::filesystem::path answers_file(const std::filesystem::path& home) { return home / "last-answers.json"; }

constexpr std::pair<const char*, std::string LastAnswers::*> kAnswers[] = {{"task", &LastAnswers::task},
                                                                           {"image", &LastAnswers::image},
                                                                           {"command", &LastAnswers::command},
                                                                           {"backend", &LastAnswers::backend},
                                                                           {"own_backend", &LastAnswers::own_backend},
                                                                           {"all_nodes", &LastAnswers::all_nodes}};
}  // namespace

LastAnswers load_answers(const std::filesystem::path& home) {
  LastAnswers answers;
  try {
    const Json json = read_json_file(answers_file(home), inputs::kAnswers);
    for (const auto& [name, member] : kAnswers) answers.*member = json.value(name, "");
  } catch (const std::exception&) {
    // The file is absent or damaged; defaults are only a convenience.
  }
  return answers;
}

void save_answers(const std::filesystem::path& home, const LastAnswers& answers) {
  Json json = Json::object();
  for (const auto& [name, member] : kAnswers) json[name] = answers.*member;
  write_json_file(answers_file(home), json);
}

}  // namespace mlbench::cli
