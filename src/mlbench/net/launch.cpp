#include "mlbench/net/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/to_number.h"

namespace mlbench::net {

namespace {

using Names = std::vector<const char*>;

// One launcher. In each list of alternatives, the first variable that is set counts.
struct Launcher {
  const char* source;
  const char* rank;
  Names size;
  Names local_rank;
  Names local_size;
};

// Slurm's numbers of tasks on the nodes of a step; the local size is one of them.
constexpr const char* kSlurmTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> table = {
      {"RANK/WORLD_SIZE", "RANK", {"WORLD_SIZE"}, {"LOCAL_RANK"}, {"LOCAL_WORLD_SIZE"}},
      {"OMPI_COMM_WORLD_*",
       "OMPI_COMM_WORLD_RANK",
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
      // PMIx tells the size through its library only.
      {"PMIX_RANK",
       "PMIX_RANK",
       {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "PALS_SIZE", "JSM_NAMESPACE_SIZE"},
       {"MPI_LOCALRANKID", "SLURM_LOCALID", "PALS_LOCAL_RANKID", "JSM_NAMESPACE_LOCAL_RANK"},
       {"MPI_LOCALNRANKS", kSlurmTasksPerNode, "PALS_LOCAL_SIZE", "JSM_NAMESPACE_LOCAL_SIZE"}},
      {"PMI_*",
       "PMI_RANK",
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID", "SLURM_LOCALID", "PALS_LOCAL_RANKID"},
       {"MPI_LOCALNRANKS", kSlurmTasksPerNode, "PALS_LOCAL_SIZE"}},
      {"MV2_COMM_WORLD_*",
       "MV2_COMM_WORLD_RANK",
       {"MV2_COMM_WORLD_SIZE"},
       {"MV2_COMM_WORLD_LOCAL_RANK"},
       {"MV2_COMM_WORLD_LOCAL_SIZE"}},
      {"SLURM_*", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, {"SLURM_LOCALID"}, {kSlurmTasksPerNode}},
      {"JSM_NAMESPACE_*",
       "JSM_NAMESPACE_RANK",
       {"JSM_NAMESPACE_SIZE"},
       {"JSM_NAMESPACE_LOCAL_RANK"},
       {"JSM_NAMESPACE_LOCAL_SIZE"}},
      {"PALS_*", "PALS_RANKID", {"PALS_SIZE", "PMI_SIZE"}, {"PALS_LOCAL_RANKID"}, {"PALS_LOCAL_SIZE"}},
      {"JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", {"WORLD_SIZE"}, {}, {}},
      {"HOROVOD_*", "HOROVOD_RANK", {"HOROVOD_SIZE"}, {"HOROVOD_LOCAL_RANK"}, {"HOROVOD_LOCAL_SIZE"}},
  };
  return table;
}

// A variable that is set. Its name stays with the value, for messages.
struct Variable {
  std::string name, text;
  std::string shown() const { return name + "=" + text; }
};

std::optional<Variable> read_variable(const EnvironmentReader& read, const char* name) {
  const auto value = read(name);
  if (!value || value->empty()) return std::nullopt;
  return Variable{name, *value};
}

std::optional<Variable> first_of(const EnvironmentReader& read, const Names& names) {
  for (const char* name : names) {
    if (auto variable = read_variable(read, name)) return variable;
  }
  return std::nullopt;
}

int number_in(const Variable& variable, int least, int most) {
  const auto value = to_number<int>(variable.text);
  if (!value || *value < least || *value > most) {
    throw UserError(fmt::format("{}: expected a number from {} to {}", variable.shown(), least, most));
  }
  return *value;
}

// The local size in "2(x3),1", which means 2, 2, 2 and 1 tasks on the nodes of a step.
int slurm_local_size(const Variable& tasks, const std::optional<Variable>& node_id) {
  const auto malformed = [&] {
    return UserError(tasks.shown() + ": expected counts of tasks per node such as 2(x3),1");
  };
  int node = node_id ? number_in(*node_id, 0, 1 << 24) : 0;
  const int wanted = node;
  std::string_view rest = tasks.text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    int nodes = 1;
    if (const size_t open = item.find("(x"); open != std::string_view::npos && item.ends_with(')')) {
      nodes = to_number<int>(item.substr(open + 2, item.size() - open - 3)).value_or(0);
      item = item.substr(0, open);
    }
    const int count = to_number<int>(item).value_or(0);
    if (nodes < 1 || count < 1) throw malformed();
    if (node < nodes) return count;
    node -= nodes;
  }
  throw UserError(fmt::format("{} has no entry for SLURM_NODEID={}", tasks.shown(), wanted));
}

void require_below(const Variable& rank, int rank_value, const std::string& size, int size_value) {
  if (rank_value >= size_value) {
    throw UserError(fmt::format("{} contradicts {}: expected 0 to {}", rank.shown(), size, size_value - 1));
  }
}

LaunchInfo read_launcher(const Launcher& launcher, const Variable& rank, const EnvironmentReader& read) {
  constexpr int kMostRanks = 1 << 24;
  LaunchInfo info;
  info.source = launcher.source;
  const auto size = first_of(read, launcher.size);
  if (!size) {
    throw UserError(fmt::format("{} is set, but the number of ranks is not: expected {} (or set RANK and WORLD_SIZE)",
                                rank.shown(), fmt::join(launcher.size, " or ")));
  }
  info.size = number_in(*size, 1, kMostRanks);
  info.rank = number_in(rank, 0, kMostRanks);
  require_below(rank, info.rank, size->shown(), info.size);

  const auto local_rank = first_of(read, launcher.local_rank);
  const auto local_size = first_of(read, launcher.local_size);
  if (local_rank) info.local_rank = number_in(*local_rank, 0, kMostRanks);
  if (local_size) {
    info.local_size = local_size->name == kSlurmTasksPerNode
                          ? slurm_local_size(*local_size, read_variable(read, "SLURM_NODEID"))
                          : number_in(*local_size, 1, kMostRanks);
    if (info.local_size > info.size) {
      throw UserError(
          fmt::format("{} contradicts {}: more ranks on this host than there are", local_size->shown(), size->shown()));
    }
  } else {
    info.local_size = info.local_rank + 1;  // the smallest size that is possible
  }
  if (local_rank) require_below(*local_rank, info.local_rank, local_size ? local_size->shown() : "", info.local_size);
  return info;
}

// ---- Slurm node lists ----------------------------------------------------------------------------------------------

class NodeList {
 public:
  explicit NodeList(const std::string& text) : text_(text) {}

  // Reads the whole list, so that a malformed rest is noticed, and returns the first host.
  std::string first_host() {
    std::string first = host();
    while (position_ < text_.size()) {
      expect(',');
      host();
    }
    return first;
  }

 private:
  bool at(char c) const { return position_ < text_.size() && text_[position_] == c; }
  void expect(char c) {
    if (!at(c)) fail();
    ++position_;
  }

  std::string host() {
    std::string name;
    while (position_ < text_.size() && !at(',')) {
      if (at('[')) {
        name += first_of_ranges();
      } else {
        const char c = text_[position_];
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') fail();
        name += c;
        ++position_;
      }
    }
    if (name.empty()) fail();
    return name;
  }

  // The first number in a list of ranges: "01" in "[01-03,7]".
  std::string first_of_ranges() {
    expect('[');
    std::string first;
    do {
      const std::string low = digits();
      if (first.empty()) first = low;
      if (at('-')) {
        ++position_;
        const std::string high = digits();
        if (to_number<int>(low).value_or(1) > to_number<int>(high).value_or(0)) fail();
      }
    } while (at(',') && ++position_ != 0);
    expect(']');
    return first;
  }

  std::string digits() {
    const size_t first = position_;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
    if (first == position_) fail();
    return text_.substr(first, position_ - first);
  }

  [[noreturn]] void fail() const {
    throw UserError(fmt::format("node list '{}' is malformed at character {}: expected a list such as n[1-3,7],gpu05",
                                text_, position_ + 1));
  }

  const std::string text_;
  size_t position_ = 0;
};

}  // namespace

std::string first_host_of_nodelist(const std::string& nodelist) { return NodeList(nodelist).first_host(); }

LaunchInfo detect_launch(const EnvironmentReader& read) {
  LaunchInfo info;
  info.source = "single process";
  for (const Launcher& launcher : launchers()) {
    if (const auto rank = read_variable(read, launcher.rank)) {
      info = read_launcher(launcher, *rank, read);
      break;
    }
  }
  if (const auto address = read_variable(read, "MASTER_ADDR")) {
    info.master_address = address->text;
  } else if (read_variable(read, "SLURM_PROCID")) {
    if (const auto nodes = first_of(read, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})) {
      try {
        info.master_address = first_host_of_nodelist(nodes->text);
      } catch (const UserError& error) {
        throw UserError(nodes->name + ": " + error.what());
      }
    }
  }
  if (const auto port = read_variable(read, "MASTER_PORT")) info.master_port = number_in(*port, 1, 65535);
  if (const auto interface = read_variable(read, "GLOO_SOCKET_IFNAME")) info.interface = interface->text;
  return info;
}

}  // namespace mlbench::net
