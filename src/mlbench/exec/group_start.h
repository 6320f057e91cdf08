#pragma once

// The start of a group that notices itself when all of its ranks run. For executors alone.

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// `Group` is a RankGroup with `bool all_run(milliseconds timeout)`, which waits up to `timeout` for all ranks to run,
// and throws IoError when a rank could not start. It may have Start's gives_files() and missing(), and `int
// failed_rank() const`, the rank that could not start.
template <typename Group>
class GroupStart final : public Start {
 public:
  explicit GroupStart(std::unique_ptr<Group> group) : group_(std::move(group)) {}

  StartStatus poll(std::chrono::milliseconds timeout) override {
    if (status_.state != StartState::kStarting) return status_;
    try {
      if (group_->all_run(timeout)) status_ = {StartState::kStarted};
    } catch (const DiskFull&) {
      throw;
    } catch (const IoError& error) {
      status_ = {StartState::kFailed, error.what()};
      if constexpr (requires { group_->failed_rank(); }) status_.rank = group_->failed_rank();
      group_.reset();
    }
    return status_;
  }

  bool gives_files() const override {
    if constexpr (requires { group_->gives_files(); }) return group_ && group_->gives_files();
    return false;
  }

  std::optional<MissingRank> missing() const override {
    if constexpr (requires { group_->missing(); }) return group_ ? group_->missing() : std::nullopt;
    return std::nullopt;
  }

  std::unique_ptr<RankGroup> take() override {
    MLBENCH_CHECK(status_.state == StartState::kStarted && group_, "only ranks that run can be taken, once");
    return std::move(group_);
  }

 private:
  StartStatus status_{StartState::kStarting};
  std::unique_ptr<Group> group_;
};

}  // namespace mlbench::exec
