#include "mlbench/cli/terminal/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/cli/context.h"

namespace mlbench::cli {

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
    const auto answer = read_line();
    if (!answer) throw UserError("no answer to '" + title + "': give it as an option, see mlbench run --help");
    if (answer->empty()) return default_value;
    if (known(*answer)) return *answer;
    const bool digits = std::all_of(answer->begin(), answer->end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits && answer->size() < 6 && std::stoul(*answer) < choices.size()) return choices[std::stoul(*answer)].value;
    tell(out, fmt::format("'{}' is none of these: a number from 0 to {}, or a name\n", *answer, choices.size() - 1));
  }
}

std::optional<std::string> read_input_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

namespace {
std::filesystem::path answers_file(const std::filesystem::path& home) { return home / "last-answers.json"; }
}  // namespace

LastAnswers load_answers(const std::filesystem::path& home) {
  LastAnswers answers;
  try {
    const Json json = read_json_file(answers_file(home), inputs::kAnswers);
    answers.task = json.value("task", "");
    answers.backend = json.value("backend", "");
  } catch (const std::exception&) {
    // The file is absent or damaged; defaults are only a convenience.
  }
  return answers;
}

void save_answers(const std::filesystem::path& home, const LastAnswers& answers) {
  write_json_file(answers_file(home), {{"task", answers.task}, {"backend", answers.backend}});
}

}  // namespace mlbench::cli
