#include "mlbench/cli/verbs/option_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::cli {

namespace {

using spec::OptionKind;
using spec::RunOption;
using spec::RunOptions;

// The help of an option with its range and default: "stop after this many steps (from 1 to 1000000000000)".
std::string full_help(const RunOption& option, const std::string& help) {
  std::vector<std::string> facts;
  switch (option.kind) {
    case OptionKind::kCount:
    case OptionKind::kCounts:
    case OptionKind::kReal:
    case OptionKind::kSteps:
      facts.push_back(to_text(option.range));
      break;
    case OptionKind::kCpus:  // a verb with a help of its own starts no containers
      facts.push_back(to_text(help.empty() ? option.range : spec::kThreadCounts));
      break;
    case OptionKind::kSize:
      facts.push_back(fmt::format("from {} to {}", spec::size_text(static_cast<int64_t>(option.range.least)),
                                  spec::size_text(static_cast<int64_t>(option.range.most))));
      break;
    case OptionKind::kDuration:
      facts.push_back(duration_text(option.range));
      break;
    default:
      break;
  }
  if (!option.usual.empty() && help.empty()) facts.push_back(fmt::format("default: {}", option.usual));
  const std::string text = help.empty() ? std::string(option.help) : help;
  return facts.empty() ? text : fmt::format("{} ({})", text, fmt::join(facts, "; "));
}

// Reads a file of this host that is named, or makes its path absolute, so that the value means the same elsewhere.
void add_meaning_of_files(CLI::App& verb, CLI::Option& added, RunOptions& options, const RunOption& option) {
  if (option.content != nullptr) {
    added.transform([&content = *option.content](const std::string& file) { return read_text_file(file, content); });
  }
  if (option.path) {
    added.transform(
        [](const std::string& file) { return std::filesystem::absolute(file).lexically_normal().string(); });
  }
  if (option.file_flag != nullptr) {
    const auto take = [&options, &option, &flag = *option.file_flag](const std::string& file) {
      options.engine[std::string(option.name)] = flag.value(read_text_file(file, *flag.content), file);
    };
    verb.add_option_function<std::string>(std::string(option.file_flag->flags), take,
                                          std::string(option.file_flag->help))
        ->type_name("FILE")
        ->group(added.get_group())
        ->excludes(&added);
  }
}

// Adds an option of an executor, whose value goes to RunOptions::engine.
CLI::Option* add_engine_option(CLI::App& verb, RunOptions& options, const RunOption& option, const std::string& text) {
  const std::string flags(option.flags), name(option.name);
  if (option.kind == OptionKind::kFlag) {
    return verb.add_flag_callback(
        flags, [&options, name] { options.engine[name] = true; }, text);
  }
  if (option.kind == OptionKind::kTexts) {
    const auto take = [&options, name](const std::vector<std::string>& values) { options.engine[name] = values; };
    return verb.add_option_function<std::vector<std::string>>(flags, take, text);
  }
  if (option.bare.empty()) {
    const auto take = [&options, name](const std::string& value) {
      if (!value.empty()) options.engine[name] = value;
    };
    return verb.add_option_function<std::string>(flags, take, text);
  }
  // The flag stands alone or has "=VALUE"; the next word is not its value.
  const auto given = std::make_shared<std::string>();
  return verb.add_flag(fmt::format("{}{{{}}}", flags, option.bare), *given, text)
      ->each([&options, name, given](const std::string& value) { options.engine[name] = value; });
}

// Texts as they are, but for each "@FILE" the lines of that file: without blank ones, and without those that begin with
// '#'. Throws UserError, IoError for a file that cannot be read.
std::vector<std::string> with_lines_of_files(const std::vector<std::string>& texts, const Input& input) {
  std::vector<std::string> all;
  for (const std::string& text : texts) {
    if (!text.starts_with('@')) {
      all.push_back(text);
      continue;
    }
    std::istringstream lines(read_text_file(text.substr(1), input));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && !line.starts_with('#')) all.push_back(line);
    }
  }
  return all;
}

CLI::Option* add_member_option(CLI::App& verb, RunOptions& options, const RunOption& option, const std::string& text) {
  const std::string flags(option.flags);
  return std::visit(
      [&](auto pointer) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(pointer), Json RunOptions::*>) {
          MLBENCH_CHECK(false, flags);  // objects come only over REST
          return nullptr;
        } else if constexpr (std::is_same_v<decltype(pointer), bool RunOptions::*>) {
          return verb.add_flag(flags, options.*pointer, text);
        } else {
          if constexpr (std::is_same_v<decltype(pointer), std::vector<std::string> RunOptions::*>) {
            if (option.lines != nullptr) {
              const auto take = [&options, pointer, &input = *option.lines](const std::vector<std::string>& texts) {
                options.*pointer = with_lines_of_files(texts, input);
              };
              return verb.add_option_function<std::vector<std::string>>(flags, take, text);
            }
          }
          return verb.add_option(flags, options.*pointer, text);
        }
      },
      option.member);
}

}  // namespace

void add_run_option(CLI::App& verb, RunOptions& options, RunOption::Member member, const std::string& help) {
  add_run_option(verb, options, spec::run_option(member), help);
}

void add_run_option(CLI::App& verb, RunOptions& options, const RunOption& option, const std::string& help) {
  const std::string flags(option.flags), text = full_help(option, help);
  CLI::Option* added = option.of_executor() ? add_engine_option(verb, options, option, text)
                                            : add_member_option(verb, options, option, text);
  if (!option.value.empty()) added->type_name(std::string(option.value));
  if (!option.group.empty()) added->group(std::string(option.group));
  if (!flags.starts_with('-')) added->required();
  if (option.kind == OptionKind::kTexts) added->allow_extra_args(false);
  add_meaning_of_files(verb, *added, options, option);
}

void add_run_options(CLI::App& verb, RunOptions& options) {
  for (const RunOption& option : catalog::run_options()) {
    if (!option.flags.empty()) add_run_option(verb, options, option);
  }
}

void add_run_options(CLI::App& verb, RunOptions& options, const std::vector<std::string_view>& set_here) {
  for (const RunOption& option : catalog::run_options()) {
    const bool left_out = option.applies == spec::AppliesTo::kCommands || std::ranges::count(set_here, option.name) > 0;
    if (!option.flags.empty() && !left_out) add_run_option(verb, options, option);
  }
}

}  // namespace mlbench::cli
