// The supervisor's end of channels to guards of other hosts; guards are linked without this file.

#include "mlbench/base/errors.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/link_words.h"
#include "mlbench/net/link/link.h"

namespace mlbench::guard {
namespace {

class SupervisorsEnd final : public Channel {
 public:
  SupervisorsEnd(net::LinkServer& links, int rank) : links_(links), rank_(rank) {}
  ~SupervisorsEnd() override { links_.close(rank_); }
  int fd() const override { return links_.fd(rank_); }
  void send(const std::string& word, const std::string& text, std::span<const int> descriptors) override {
    MLBENCH_CHECK(descriptors.empty(), "descriptors do not travel to other hosts");
    links_.send(rank_, word, text);
  }
  void put(const std::string& name) override { links_.send_file(rank_, "put", name); }
  bool elsewhere() const override { return true; }
  int rank() const override { return rank_; }
  Status receive(Message& message) override {
    return receive_from([this](net::LinkWord& word) { return links_.receive(rank_, word); }, message);
  }
  std::optional<pid_t> peer() const override { return std::nullopt; }

 private:
  net::LinkServer& links_;
  const int rank_;
};

}  // namespace

std::unique_ptr<Channel> LinkArrivals::accept() {
  for (int rank = 0; rank < size_; ++rank) {
    if (taken_[static_cast<size_t>(rank)] || !links_.came(rank)) continue;
    taken_[static_cast<size_t>(rank)] = true;
    return std::make_unique<SupervisorsEnd>(links_, rank);
  }
  return nullptr;
}

}  // namespace mlbench::guard
