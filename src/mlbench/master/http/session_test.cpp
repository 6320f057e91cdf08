#include "mlbench/master/http/session.h"

#include <gmock/gmock.h>

#include <set>

namespace mlbench::master {
namespace {

using namespace std::chrono_literals;
using net::http::Request;
using testing::HasSubstr;

Request request_with(std::string host, std::string cookie, bool secure = false) {
  Request request;
  request.headers = {{"Host", std::move(host)}, {"Cookie", std::move(cookie)}};
  request.secure = secure;
  return request;
}

TEST(Sessions, EndByThemselvesAndWhenClosed) {
  ManualClock clock;
  Sessions sessions(clock);
  const Session first = sessions.open(), second = sessions.open();
  EXPECT_EQ(first.id.size(), 64u);
  EXPECT_EQ((std::set{first.id, first.csrf, second.id, second.csrf}).size(), 4u);
  ASSERT_TRUE(sessions.find(first.id));
  EXPECT_EQ(sessions.find(first.id)->csrf, first.csrf);
  for (const std::string& wrong : {std::string(), first.csrf, first.id + "0", first.id.substr(1)}) {
    EXPECT_FALSE(sessions.find(wrong)) << wrong;
  }
  sessions.close(first.id);
  EXPECT_FALSE(sessions.find(first.id));
  clock.advance(Sessions::kSessionTime - 1s);
  EXPECT_TRUE(sessions.find(second.id));
  clock.advance(1s);
  EXPECT_FALSE(sessions.find(second.id));
}

TEST(Sessions, TheOldestMakesRoom) {
  ManualClock clock;
  Sessions sessions(clock);
  const Session first = sessions.open(), second = sessions.open();
  for (size_t i = 0; i < Sessions::kMost - 1; ++i) sessions.open();
  EXPECT_FALSE(sessions.find(first.id));
  EXPECT_TRUE(sessions.find(second.id));
}

TEST(Sessions, ACodeWorksOnceAndNotForLong) {
  ManualClock clock;
  Sessions sessions(clock);
  const std::string code = sessions.make_code(), other = sessions.make_code(), late = sessions.make_code();
  EXPECT_FALSE(sessions.take_code(""));
  EXPECT_FALSE(sessions.take_code(code + "0"));
  EXPECT_TRUE(sessions.take_code(code));
  EXPECT_FALSE(sessions.take_code(code));
  clock.advance(Sessions::kCodeTime - 1s);
  EXPECT_TRUE(sessions.take_code(other));
  clock.advance(1s);
  EXPECT_FALSE(sessions.take_code(late));
}

TEST(Cookies, AreFoundByThePortOfTheServer) {
  EXPECT_EQ(cookie_value(request_with("127.0.0.1:8080", "mlbench_8080=a")), "a");
  EXPECT_EQ(cookie_value(request_with("[::1]:8080", "x=y; mlbench_81=b;mlbench_8080=a; z")), "a");
  EXPECT_EQ(cookie_value(request_with("host", "mlbench_80=a")), "a");
  EXPECT_EQ(cookie_value(request_with("host", "mlbench_443=a", true)), "a");
  EXPECT_EQ(cookie_value(request_with("127.0.0.1:8081", "mlbench_8080=a")), "");
  EXPECT_EQ(cookie_value(request_with("127.0.0.1:8080", "xmlbench_8080=a; ;; =")), "");
  EXPECT_EQ(cookie_value(request_with("127.0.0.1:80;8", "mlbench_80=a")), "a");  // no port at all
}

TEST(Cookies, AreSetSoThatNoScriptAndNoOtherSiteHasThem) {
  const std::string plain = set_cookie(request_with("127.0.0.1:8080", ""), "abc");
  EXPECT_EQ(plain, "mlbench_8080=abc; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
  EXPECT_THAT(set_cookie(request_with("host", "", true), "abc"), HasSubstr("; Secure"));
  EXPECT_THAT(set_cookie(request_with("127.0.0.1:8080", ""), ""), HasSubstr("mlbench_8080=; Path=/; Max-Age=0;"));
}

}  // namespace
}  // namespace mlbench::master
