#include "mlbench/cli/clusters/provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/numbers.h"

namespace mlbench::cli {

namespace {

constexpr size_t kLongestLabel = 40;

constexpr std::array<ProviderRow, 7> kRows = {{
    {"local", "a master with a home of its own on this machine", false, make_local},
    {"hosts", "hosts over ssh, checked: who answers, builds, clocks, cores", false, make_hosts},
    {"slurm", "options of Slurm under a name", false, make_slurm},
    {"kubernetes", "the chart in an existing cluster, reached by a context of kubectl", true, make_kubernetes},
    {"kind", "Kubernetes in containers of this machine, with a registry on port 5000", true, make_kind},
    {"gcloud", "a cluster in Google's cloud (costs money)", true, make_gcloud},
    {"aws", "a cluster in Amazon's cloud (costs money)", true, make_aws},
}};

}  // namespace

std::span<const ProviderRow> providers() { return kRows; }

const ProviderRow& provider(const std::string& name) { return row_named(kRows, "provider", name); }

void check_cluster_label(const std::string& name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  if (!name.empty() && name.size() <= kLongestLabel && letter(name.front()) && name.back() != '-' &&
      std::ranges::all_of(name, fits)) {
    return;
  }
  throw UserError(
      fmt::format("cluster name '{}': expected at most {} lower-case letters, digits and -, begun with a "
                  "letter and not ended by -, the number of nodes included",
                  shortened(name), kLongestLabel));
}

}  // namespace mlbench::cli
