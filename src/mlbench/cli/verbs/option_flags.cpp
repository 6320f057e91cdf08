#include "mlbench/cli/verbs/option_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <type_traits>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text_blocks.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::cli {

namespace {

using spec::OptionKind;
using spec::RunOption;
using spec::RunOptions;

// "stop after this many steps (from 1 to 1000000000000)"
std::string full_help(const RunOption& option, const std::string& help) {
  std::vector<std::string> facts;
  switch (option.kind) {
    case OptionKind::kCount:
    case OptionKind::kCounts:
    case OptionKind::kReal:
    case OptionKind::kSteps:
      facts.push_back(to_text(option.range));
      break;
    case OptionKind::kCpus:  // a verb with words of its own for it starts no containers
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

// What names a file of this host is read, or made absolute, before it goes anywhere else.
void add_meaning_of_files(CLI::App& verb, CLI::Option& added, RunOptions& options, RunOption::Member member) {
  if (member == RunOption::Member(&RunOptions::setup)) {
    added.transform([](const std::string& file) { return read_text_file(file, inputs::kSetup); });
  } else if (member == RunOption::Member(&RunOptions::pod_overlay)) {
    added.transform([](const std::string& file) { return read_text_file(file, inputs::kPodOverlay); });
  } else if (member == RunOption::Member(&RunOptions::ssh_config)) {
    added.transform(
        [](const std::string& file) { return std::filesystem::absolute(file).lexically_normal().string(); });
  } else if (member == RunOption::Member(&RunOptions::hosts)) {
    const auto take = [&options](const std::string& file) {
      options.hosts = spec::hosts_of_file(read_text_file(file, inputs::kHostFile), file);
    };
    verb.add_option_function<std::string>("--hostfile", take, "file that names them: lines as 'h1 slots=2'")
        ->type_name("FILE")
        ->group(added.get_group())
        ->excludes(&added);
  }
}

// Alone or with "=VALUE": the word behind it is none of it.
CLI::Option* add_flag_with_value(CLI::App& verb, const RunOption& option, RunOptions& options,
                                 const std::string& text) {
  std::string& value = options.*std::get<std::string RunOptions::*>(option.member);
  return verb.add_flag(fmt::format("{}{{{}}}", option.flags, option.bare), value, text);
}

}  // namespace

void add_run_option(CLI::App& verb, RunOptions& options, RunOption::Member member, const std::string& help) {
  const RunOption& option = spec::run_option(member);
  const std::string flags(option.flags), text = full_help(option, help);
  CLI::Option* added = std::visit(
      [&](auto pointer) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(pointer), Json RunOptions::*>) {
          MLBENCH_CHECK(false, flags);  // objects come over REST alone
          return nullptr;
        } else if constexpr (std::is_same_v<decltype(pointer), bool RunOptions::*>) {
          return verb.add_flag(flags, options.*pointer, text);
        } else if (!option.bare.empty()) {
          return add_flag_with_value(verb, option, options, text);
        } else {
          return verb.add_option(flags, options.*pointer, text);
        }
      },
      option.member);
  if (!option.value.empty()) added->type_name(std::string(option.value));
  if (!option.group.empty()) added->group(std::string(option.group));
  if (!flags.starts_with('-')) added->required();
  if (option.kind == OptionKind::kTexts) added->allow_extra_args(false);
  add_meaning_of_files(verb, *added, options, member);
}

void add_run_options(CLI::App& verb, RunOptions& options) {
  for (const RunOption& option : spec::run_options()) {
    if (!option.flags.empty()) add_run_option(verb, options, option.member);
  }
}

}  // namespace mlbench::cli
