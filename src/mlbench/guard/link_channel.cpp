// A guard's end of the channel to a supervisor on another host.

#include "mlbench/base/errors.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/link_words.h"
#include "mlbench/net/link/link.h"
#include "mlbench/net/sockets.h"

namespace mlbench::guard {
namespace {

class GuardsEnd final : public Channel {
 public:
  explicit GuardsEnd(const net::LinkClientOptions& options) : link_(options) {}
  int fd() const override { return link_.fd(); }
  void send(const std::string& word, const std::string& text, std::span<const int> descriptors) override {
    MLBENCH_CHECK(descriptors.empty(), "descriptors do not travel to other hosts");
    link_.send(word, text);
  }
  void offer_folders() override { link_.offer_folders(); }
  void send_behind_files(const std::string& word) override { link_.send_behind_files(word, ""); }
  bool elsewhere() const override { return true; }
  Status receive(Message& message) override {
    return receive_from([this](net::LinkWord& word) { return link_.receive(word); }, message);
  }
  std::optional<pid_t> peer() const override { return std::nullopt; }

 private:
  net::LinkClient link_;
};

}  // namespace

std::unique_ptr<Channel> connect_by_link(const std::string& host_and_port, const RankOfRun& rank) {
  const auto endpoint = net::parse_endpoint(host_and_port);
  if (!endpoint) throw UserError("'link:" + host_and_port + "' is no address of a supervisor: expected link:HOST:PORT");
  net::LinkClientOptions options;
  options.address = endpoint->host;
  options.port = endpoint->port;
  options.rank = rank.rank;
  options.size = rank.size;
  options.run_id = rank.run_id;
  options.secret = rank.secret;
  options.folder = rank.folder;
  return std::make_unique<GuardsEnd>(options);
}

}  // namespace mlbench::guard
