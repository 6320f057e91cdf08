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
// Compares the SHA-256 of every file with the description: one result per file. A file that is packed in another way,
// or not at all, is compared by its unpacked content. Does not throw for a file that cannot be read: its result says
// why. An archive is compared as a whole, else member by member; throws UserError where it cannot be unpacked. Encoded
// images have one result: their fingerprint is compared, for which all are read.
std::vector<VerifyResult> verify(const DatasetDescription& description, const LocatedDataset& located);

}  // namespace mlbench::dataset
