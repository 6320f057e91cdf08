#include "mlbench/comm/kv_store.h"

#include <utility>

namespace mlbench::comm {

namespace {

class KvStore final : public RendezvousStore {
 public:
  KvStore(std::shared_ptr<net::KvClient> client, std::string prefix)
      : client_(std::move(client)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::string& value) override { client_->set(prefix_ + key, value); }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    return client_->get(prefix_ + key, timeout);
  }

 private:
  std::shared_ptr<net::KvClient> client_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<RendezvousStore> make_kv_store(std::shared_ptr<net::KvClient> client, const std::string& prefix) {
  return std::make_shared<KvStore>(std::move(client), prefix);
}

}  // namespace mlbench::comm
