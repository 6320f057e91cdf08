#pragma once

// The images of a run that cannot be decoded: counts them over all ranks, and limits them (docs/images.md).

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/named_state.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/data/bad_sample.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::train {

// Each image of each split counts once, whichever ranks have met it, and however often.
class BadImages {
 public:
  // `most`: of all splits and ranks; 0: none is allowed. Data that are not encoded allow none. They must outlive the
  // object.
  BadImages(const dataset::PreparedDataset& data, int64_t most);

  int64_t most() const { return most_; }
  int64_t count() const { return std::ssize(known_); }
  std::string name_of(const data::BadSample& bad) const;

  // Counts an image that this rank has met. Returns whether it is new here.
  bool add(const data::BadSample& bad);
  // Throws UserError where there are too many, naming the first ones by their number.
  void check_limit() const;
  // Counts what the other ranks have met since the call before. Throws as check_limit() does, on all ranks. Collective.
  void share(comm::Communicator& comm);

  // All that are known. Precondition: nobody has met one since share().
  void export_state(NamedState& state) const;
  void import_state(const NamedState& state);

 private:
  using Image = std::pair<int64_t, int64_t>;  // split, in the data set's order; number in it

  Image image_of(const data::BadSample& bad) const;
  // Adds splits and numbers in turn. What the data do not have is left out: they may have changed since a checkpoint.
  void know(std::span<const int64_t> images);

  const dataset::PreparedDataset& data_;
  const int64_t most_;
  std::set<Image> known_;
  std::vector<int64_t> untold_;  // splits and numbers in turn: met by this rank since share()
};

}  // namespace mlbench::train
