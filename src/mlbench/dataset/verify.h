#pragma once

#include <string>
#include <vector>

#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"

namespace mlbench::dataset {

struct VerifyResult {
  std::string file;
  bool ok;
  std::string message;
};
// Size and SHA-256 of every file against the description; a file that is packed otherwise (or not at all) is compared
// by its unpacked content.
std::vector<VerifyResult> verify(const DatasetDescription& description, const LocatedDataset& located);

}  // namespace mlbench::dataset
