#pragma once

// Asks questions on a terminal as MLBench's `run` does, with the last answers as defaults.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::cli {

struct Choice {
  std::string value;
  std::string text;  // shown behind the value; may be empty
};

// Shows `title` and the numbered choices on `out`, and reads lines by `read_line` (empty: end of input) until one is a
// number of the list, a value, or empty. An empty line means `preset` or, where that is no choice, the first choice.
// Returns the value. Throws UserError at the end of input. Precondition: there is a choice.
std::string ask(const std::string& title, const std::vector<Choice>& choices, const std::string& preset, std::FILE* out,
                const std::function<std::optional<std::string>()>& read_line);

// Shows `title` on `out` and reads lines until one is good: `complaint` returns "" for it, else what is wrong. An empty
// line means `preset`, which is shown unless it is "". Throws UserError at the end of input.
std::string ask_text(const std::string& title, const std::string& preset, std::FILE* out,
                     const std::function<std::optional<std::string>()>& read_line,
                     const std::function<std::string(const std::string& line)>& complaint);

// A line of standard input; empty at its end.
std::optional<std::string> read_input_line();

// The answers that are kept in a home; "" where there is none. `own_backend` is the name of a back end that is none of
// the choices.
struct LastAnswers {
  std::string task, image, command, backend, own_backend, all_nodes;
  bool operator==(const LastAnswers&) const = default;
};
LastAnswers load_answers(const std::filesystem::path& home);
void save_answers(const std::filesystem::path& home, const LastAnswers& answers);

}  // namespace mlbench::cli
