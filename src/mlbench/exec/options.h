#pragma once

// Options that several executors take, as rows, and the forms of their texts (spec::RunOption::form). Options of one
// executor alone are in exec/NAME/options.h, beside the list of all that it takes; catalog/options collects the lists.

#include <fmt/format.h>

#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/text.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::exec {

using spec::OptionKind;

inline constexpr Range kRequeues{1, 100};

inline std::string absolute_path(const std::string& text, const std::string& label) {
  if (!text.starts_with('/')) throw UserError(fmt::format("{} '{}' is no absolute path", label, shortened(text)));
  return text;
}

inline std::string image_name(const std::string& text, const std::string& label) {
  if (text.starts_with('-') || has_control_character(text)) {
    throw UserError(
        fmt::format("{} '{}': expected an image as in registry.example/team/image:1", label, shortened(text)));
  }
  return text;
}

inline std::string text_of_64k(const std::string& text, const std::string& label) {
  constexpr size_t kMost = 64 * 1024;
  if (text.size() > kMost) {
    throw UserError(fmt::format("{} has {} bytes; expected at most {}", label, text.size(), kMost));
  }
  if (text.find('\0') != std::string::npos) throw UserError(label + " holds a zero byte: it is no text");
  return text;
}

// clang-format off
inline constexpr spec::RunOption kRanksPerHostOption = {.name = "ranks_per_host",
    .flags = "--ranks-per-host,--procs-per-node", .kind = OptionKind::kCount, .range = spec::kRanksPerHost,
    .value = "N", .help = "so many ranks on each host, in place of its slots",
    .compared = "hosts"};
inline constexpr spec::RunOption kScratchOption = {.name = "scratch", .flags = "--scratch",
    .kind = OptionKind::kText, .value = "DIR",
    .help = "absolute folder on the hosts for what ranks write (default: /tmp)", .compared = "scratch",
    .form = absolute_path};
inline constexpr spec::RunOption kImageOption = {.name = "image", .flags = "--image", .kind = OptionKind::kText,
    .value = "IMAGE", .help = "container image in which the ranks run",
    .compared = "image", .form = image_name};
// The supervisor acts on this option. An executor that takes it can start the ranks again, elsewhere or later.
inline constexpr spec::RunOption kRequeueOption = {.name = "requeue", .flags = "--requeue",
    .kind = OptionKind::kCount, .applies = spec::AppliesTo::kTraining, .range = kRequeues, .value = "N",
    .help = "once a host is lost, or an engine takes ranks away, go on from the last checkpoint: at most N times, 3 "
            "without =N",
    .bare = "3", .not_compared = "what came of it are segments, which are labelled"};
// clang-format on

}  // namespace mlbench::exec
