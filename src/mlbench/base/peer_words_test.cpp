#include "mlbench/base/peer_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mlbench {
namespace {

using namespace std::string_literals;

// Whatever the type: none of these is harmless in an environment, an argument, a file name or a shell.
const std::vector<std::string> kHarmful = {"a\0b"s, "a;b",     "$(a)", "`a`", "a b",  "a\nb", "a'b", "a\"b",
                                           "a&b",   "a|b",     "a>b",  "a*b", "a\\b", "",     "-a",  "\x1b[2J",
                                           "a\xff", "a\u202e", "(a)",  "a#b", "a=b",  "~a",   "a\tb"};

struct Row {
  PeerWord row;
  std::vector<std::string> good, bad;
};

TEST(PeerWords, EachHasAType) {
  const std::vector<Row> rows = {
      {peer_words::kAddress,
       {"127.0.0.1", "::1", "fe80::1%eth0", "fd00::7", "host-3", "a_b.example.org", "h1."},
       {"fe80::1%", "fe80::1%a b", "fe80::1%0123456789abcdef", "[::1]", "a,b", std::string(64, 'a'), ".a", "a/b",
        "::1\0"s}},
      {peer_words::kHost, {"host-3", "a_b.example.org", "1"}, {"::1", "a:b", "a,b", std::string(300, 'a')}},
      {peer_words::kAddresses, {"h1", "h1,::1,10.0.0.3", "h1,h1"}, {"h1,", ",h1", "h1, h2", "h1,$(a)", "h1,,h2"}},
      {peer_words::kPeerVariable,
       {"MASTER_ADDR", "MASTER_PORT", "HOROVOD_RANK"},
       {"BASH_ENV", "LD_PRELOAD", "PATH", "HOROVOD_A=B", "MASTER_ADDRESS"}},
      {peer_words::kFolderIdentity, {"0a-b:4026531840:64769:12"}, {"a/b", "a,b"}},
      {peer_words::kSegment, {"mlbench-shm.1.2.3.run_1.0aff"}, {"../a", "a/b"}},
  };
  for (const Row& row : rows) {
    for (const std::string& good : row.good) {
      EXPECT_EQ(checked(row.row, good), good) << row.row.what;
      EXPECT_TRUE(fits(row.row, good));
    }
    for (const std::string& bad : row.bad) {
      EXPECT_THROW(checked(row.row, bad), PeerFault) << row.row.what << ": " << bad;
      EXPECT_FALSE(fits(row.row, bad));
    }
    for (const std::string& bad : kHarmful)
      EXPECT_THROW(checked(row.row, bad), PeerFault) << row.row.what << ": " << bad;
  }
}

TEST(PeerWords, PathsStayBelowTheirFolder) {
  for (const char* good : {"a", "checkpoints/step-00000010", "a b", "\xc3\xa4", "a..b", ".a"}) {
    EXPECT_TRUE(fits(peer_words::kFile, good)) << good;
  }
  for (const std::string& bad : {""s, "/a"s, "a/"s, "a//b"s, ".."s, "a/../b"s, "./a"s, "a\0b"s, "a\nb"s, "a\xff"s,
                                 std::string(300, 'a'), "a/" + std::string(256, 'a')}) {
    EXPECT_FALSE(fits(peer_words::kFile, bad)) << bad;
  }
  std::string deep = "a";
  for (int i = 0; i < 40; ++i) deep += "/a";
  EXPECT_FALSE(fits(peer_words::kFile, deep));
}

TEST(PeerWords, NumbersHaveARange) {
  EXPECT_EQ(number_of(peer_words::kExitCode, "255"), 255);
  for (const char* bad : {"", " 1", "1 ", "+1", "-1", "256", "1e1", "0x1", "99999999999999999999"}) {
    EXPECT_THROW(number_of(peer_words::kExitCode, bad), PeerFault) << bad;
  }
  const Json said = {{"port", 4711}, {"far", 65536}, {"huge", UINT64_MAX},
                     {"half", 0.5},  {"text", "1"},  {"none", nullptr}};
  EXPECT_EQ(number_in(said, "port", peer_words::kPort, 0), 4711);
  EXPECT_EQ(number_in(said, "absent", peer_words::kPort, 7), 7);
  EXPECT_EQ(number_in(said, "none", peer_words::kPort, 7), 7);
  for (const char* bad : {"far", "huge", "half", "text"}) {
    EXPECT_THROW(number_in(said, bad, peer_words::kPort, 0), PeerFault) << bad;
  }
}

TEST(PeerWords, ObjectsHaveASizeAndADepth) {
  const PeerObject row{"a thing", 100, 3};
  EXPECT_NO_THROW(checked(row, Json::parse(R"({"a": {"b": [1]}})")));
  EXPECT_THROW(checked(row, Json::parse(R"({"a": {"b": [[1]]}})")), PeerFault);
  EXPECT_THROW(checked(row, Json(7)), PeerFault);
  EXPECT_THROW(checked(row, Json{{"a", std::string(100, 'x')}}), PeerFault);
}

TEST(PeerWords, ReasonsAreCutAndEscaped) {
  EXPECT_EQ(reason_of(peer_words::kReason, "first\nsecond"), "first\nsecond");
  EXPECT_EQ(reason_of(peer_words::kReason, "a\x1b[2J\0b\xff"s.substr(0, 8)), "a\\x1b[2J\\x00b\\xff");
  EXPECT_LT(reason_of(peer_words::kReason, std::string(1 << 20, 'a')).size(), peer_words::kReason.most_bytes + 100);
}

TEST(PeerWords, AHostsOwnNameIsOne) {
  EXPECT_EQ(host_word("node_3.example.org"), "node_3.example.org");
  EXPECT_EQ(host_word("my host; rm"), "my-host--rm");
  for (const char* name : {"", "-", "...", "\xff"}) EXPECT_TRUE(fits(peer_words::kHost, host_word(name))) << name;
}

}  // namespace
}  // namespace mlbench
