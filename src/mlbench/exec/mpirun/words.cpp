#include "mlbench/exec/mpirun/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "mlbench/base/text.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::mpirun {
namespace {

constexpr size_t kMostSshLines = 3;

// The lines of `said` that say something.
std::vector<std::string> lines_of(const std::string& said) {
  std::vector<std::string> lines;
  std::istringstream text(said);
  for (std::string line; std::getline(text, line);) {
    line = trimmed(line);
    const bool rule = std::ranges::all_of(line, [](char c) { return c == '-'; });
    if (!rule && line.find("plm:rsh: Warning: setpgid") == std::string::npos) lines.push_back(std::move(line));
  }
  return lines;
}

// What stands behind "NAME:" in the first line that begins so.
std::string field_in(const std::vector<std::string>& lines, const std::string& name) {
  for (const std::string& line : lines) {
    if (line.starts_with(name + ":")) return trimmed(line.substr(name.size() + 1));
  }
  return "";
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace

std::string last_lines(const std::string& said) {
  return last_words(fmt::format("{}", fmt::join(lines_of(said), "\n")));
}

std::string why_no_start(const std::string& said, const std::string& ssh_config) {
  const std::vector<std::string> lines = lines_of(said);
  const std::string node = field_in(lines, "Node"), program = field_in(lines, "Executable");
  const std::string folder = field_in(lines, "Working directory");
  if (!node.empty() && !program.empty()) {
    const std::string name = program.substr(program.rfind('/') + 1);
    return fmt::format(
        "{} is not at {} on {}: install the same build there, at the same path (a shared file system, or "
        "the same package)",
        name, program, node);
  }
  if (!node.empty() && !folder.empty()) {
    return fmt::format("there is no folder {} on {}: ranks start in it; make it there, or give another (--work-dir)",
                       folder, node);
  }
  std::vector<std::string> refusals;
  for (const std::string& line : lines) {
    if (line.find("orted: ") != std::string::npos && contains_any(line, {"not found", "No such file"})) {
      return fmt::format(
          "a host has no Open MPI in the PATH that ssh gives ({}): install there what is here (Debian: "
          "openmpi-bin)",
          line);
    }
    const bool refusal = line.starts_with("ssh: ") ||
                         contains_any(line, {"Permission denied (", "Host key verification failed", "Bad owner or perm",
                                             "Can't open user config file", "Connection closed by",
                                             "Connection reset by", "kex_exchange_identification"});
    if (refusal && refusals.size() < kMostSshLines) refusals.push_back(line);
  }
  if (refusals.empty()) return last_lines(said);
  const std::string config = ssh_config.empty() ? "" : "-F " + ssh_config + " ";
  return fmt::format("{} (this must work from here for each host: ssh {}-o BatchMode=yes HOST true)",
                     fmt::join(refusals, "; "), config);
}

std::optional<std::string> lost_host(const std::string& said) {
  constexpr std::string_view kLost = "lost communication with a remote daemon", kNode = " on node ";
  const size_t begin = said.find(kLost);
  if (begin == std::string::npos) return std::nullopt;
  const size_t daemon = said.find("Remote daemon:", begin);
  const size_t end = daemon == std::string::npos ? daemon : said.find('\n', daemon);
  if (end == std::string::npos) return std::nullopt;  // the rest of it is still on its way
  const size_t node = said.find(kNode, daemon);
  if (node == std::string::npos || node > end) return std::nullopt;
  return trimmed(said.substr(node + kNode.size(), end - node - kNode.size()));
}

std::string ranks_on(const std::string& host, const std::vector<std::string>& hosts) {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == host) ranks.push_back(rank);
  }
  if (ranks.empty()) return "no rank";
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace mlbench::exec::mpirun
