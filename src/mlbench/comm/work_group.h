#pragma once

// The sends and receives that make up a collective: all are begun, then all are waited for.

#include <memory>
#include <utility>
#include <vector>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

// When an exception ends the collective early, the transport lets go before the works are destroyed. Otherwise they
// would wait for peers, each as long as its timeout, before anybody heard of the failure.
class WorkGroup {
 public:
  explicit WorkGroup(Transport& transport) : transport_(transport) {}
  WorkGroup(const WorkGroup&) = delete;
  WorkGroup& operator=(const WorkGroup&) = delete;
  ~WorkGroup() {
    if (!finished_ && !works_.empty()) transport_.let_go();
  }

  void add(std::unique_ptr<Work> work) {
    works_.push_back(std::move(work));
    finished_ = false;
  }
  bool done() {
    for (const auto& work : works_) {
      if (!work->done()) return false;
    }
    return true;
  }
  // Waits for all works. Throws the error of the first that failed.
  void finish() {
    for (const auto& work : works_) work->synchronize();
    finished_ = true;
  }

 private:
  Transport& transport_;
  std::vector<std::unique_ptr<Work>> works_;
  bool finished_ = false;
};

}  // namespace mlbench::comm
