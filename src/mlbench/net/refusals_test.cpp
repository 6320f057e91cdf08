#include "mlbench/net/refusals.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace mlbench::net {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Refusals, TheFirstOnesAreToldAndTheOthersCounted) {
  const auto before = spdlog::default_logger();
  std::ostringstream log;
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  {
    Refusals refusals("rendezvous");
    for (int i = 0; i < 100000; ++i) {
      refusals.note(fmt::format("127.0.0.1:{}", i), "\x1b[2J\nforged " + std::string(4000, 'x'));
    }
    EXPECT_EQ(refusals.count(), 100000);
    EXPECT_THAT(log.str(), HasSubstr("rendezvous: refused 127.0.0.1:0: \\x1b[2J\\nforged xx"));
    EXPECT_THAT(log.str(), Not(HasSubstr("127.0.0.1:99999")));
  }
  spdlog::set_default_logger(before);
  EXPECT_THAT(log.str(), HasSubstr("more connections (100000 in all), the last one 127.0.0.1:99999: \\x1b[2J"));
  EXPECT_LT(log.str().size(), size_t{8192});
}

}  // namespace
}  // namespace mlbench::net
