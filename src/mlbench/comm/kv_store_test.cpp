#include "mlbench/comm/kv_store.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"

namespace mlbench::comm {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST(KvStore, PrefixesKeepGroupsApartAndRanksTogether) {
  net::KvServerOptions server_options;
  server_options.size = 2;
  const net::KvServer server(server_options);
  std::vector<std::shared_ptr<net::KvClient>> clients;
  for (int rank = 0; rank < 2; ++rank) {
    net::KvClientOptions options;
    options.port = server.port();
    options.rank = rank;
    options.size = 2;
    clients.push_back(std::make_shared<net::KvClient>(options));
  }
  const auto first = make_kv_store(clients[0], "segment1/");
  const auto same = make_kv_store(clients[1], "segment1/");
  const auto other = make_kv_store(clients[1], "segment2/");
  first->set("address", std::string("a\0b", 3));
  other->set("address", "elsewhere");
  EXPECT_EQ(same->get("address", 1s), std::string("a\0b", 3));
  EXPECT_EQ(other->get("address", 1s), "elsewhere");
  EXPECT_THROW(same->set("address", "again"), CommError);
  EXPECT_THAT([&] { same->get("absent", 10ms); },
              testing::ThrowsMessage<CommTimeout>(AllOf(HasSubstr("'segment1/absent'"), HasSubstr("0.01 s"))));
}

}  // namespace
}  // namespace mlbench::comm
