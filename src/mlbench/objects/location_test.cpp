#include "mlbench/objects/location.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"

namespace mlbench::objects {
namespace {

using testing::HasSubstr;
using testing::Not;

class LocationTest : public testing::Test {
 protected:
  LocationTest() {
    for (const char* name :
         {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"}) {
      unsetenv(name);
    }
    setenv("AWS_CONFIG_FILE", (folder_ / "config").c_str(), 1);
  }
  TemporaryFolder folder_;
};

StoreOptions with(std::string endpoint, std::string region = "", std::string style = "") {
  StoreOptions options;
  options.endpoint = std::move(endpoint);
  options.region = std::move(region);
  options.style = std::move(style);
  return options;
}

TEST_F(LocationTest, AmazonsEndpointFollowsFromTheRegion) {
  const Location location = locate("s3://data.sets/imagenet/train/", with("", "eu-central-1"));
  EXPECT_EQ(location.endpoint, "https://s3.eu-central-1.amazonaws.com");
  EXPECT_EQ(location.prefix, "imagenet/train/");
  EXPECT_EQ(location.place(), "s3://data.sets/imagenet/train/");
  EXPECT_EQ(location.url("a/b c"), "https://data.sets.s3.eu-central-1.amazonaws.com/a/b%20c");
  EXPECT_EQ(location.url(""), "https://data.sets.s3.eu-central-1.amazonaws.com/");
}

TEST_F(LocationTest, OtherEndpointsHaveTheBucketInThePath) {
  const Location location = locate("s3://bucket", with("http://127.0.0.1:9000/"));
  EXPECT_EQ(location.region, "us-east-1");
  EXPECT_EQ(location.url("\xC3\xA4/a+b%~(1)='x'&?#"),
            "http://127.0.0.1:9000/bucket/%C3%A4/a%2Bb%25~%281%29%3D%27x%27%26%3F%23");
  EXPECT_EQ(location.url(""), "http://127.0.0.1:9000/bucket");
  EXPECT_EQ(locate("s3://bucket", with("http://host:1", "", "virtual")).url("k"), "http://bucket.host:1/k");
  EXPECT_EQ(locate("s3://bucket", with("", "", "path")).url("k"), "https://s3.us-east-1.amazonaws.com/bucket/k");
}

TEST_F(LocationTest, EnvironmentAndProfileSayTheRest) {
  std::ofstream(folder_ / "config") << "[default]\nregion = eu-west-1\n[profile lab]\nendpoint_url = http://lab:1\n";
  EXPECT_EQ(locate("s3://bucket", {}).region, "eu-west-1");
  setenv("AWS_REGION", "us-west-2", 1);
  EXPECT_EQ(locate("s3://bucket", {}).region, "us-west-2");
  EXPECT_EQ(locate("s3://bucket", with("", "local")).region, "local");
  setenv("AWS_PROFILE", "lab", 1);
  EXPECT_EQ(locate("s3://bucket", {}).endpoint, "http://lab:1");
  setenv("AWS_ENDPOINT_URL", "http://all:1", 1);
  EXPECT_EQ(locate("s3://bucket", {}).endpoint, "http://all:1");
  setenv("AWS_ENDPOINT_URL_S3", "http://s3:1", 1);
  EXPECT_EQ(locate("s3://bucket", {}).endpoint, "http://s3:1");
  EXPECT_EQ(locate("s3://bucket", with("http://given:1")).endpoint, "http://given:1");
}

TEST_F(LocationTest, WhatIsNoneIsRefused) {
  const auto error = [](const std::string& place, const StoreOptions& options = {}) {
    return error_of([&] { locate(place, options); });
  };
  EXPECT_THAT(error("s3://"), HasSubstr("expected s3://BUCKET/PREFIX"));
  EXPECT_THAT(error("s3://a b c"), HasSubstr("3 to 63 letters"));
  EXPECT_THAT(error("s3://bucket/a/../b"), HasSubstr("'..'"));
  EXPECT_THAT(error("s3://bucket/a\nb"), HasSubstr("control character"));
  EXPECT_THAT(error("s3://bucket", with("ftp://host")), HasSubstr("expected http://HOST[:PORT]"));
  EXPECT_THAT(error("s3://bucket", with("http://host/?x=1")), HasSubstr("expected http://HOST[:PORT]"));
  EXPECT_THAT(error("s3://bucket", with("http://h", "a:b")), HasSubstr("region 'a:b'"));
  EXPECT_THAT(error("s3://bucket", with("http://h", "", "vhost")), HasSubstr("path, virtual"));
  const std::string secret = error("s3://bucket", with("https://key:hunter2@host"));
  EXPECT_THAT(secret, HasSubstr("has a name or password in it"));
  EXPECT_THAT(secret, Not(HasSubstr("hunter2")));
}

TEST(Keys, StayBelowTheirPlace) {
  const auto error = [](const std::string& key) { return error_of([&] { check_key("s3://b", key); }); };
  for (const char* good : {"a", "a/b.tar", "a..b/..c", "\xC3\xA4 (1)", "a//b"})
    EXPECT_EQ(error(good), "no error") << good;
  EXPECT_EQ(error("../a"), "s3://b: '../a': a path that leaves its folder by '..'");
  EXPECT_EQ(error("a/./b"), "s3://b: 'a/./b': a path with the part '.'");
  for (const char* bad : {"a/../b", "a/.", "/a", "", "a\nb", "a\x7f", "\xFF"}) EXPECT_NE(error(bad), "no error") << bad;
  EXPECT_EQ(error(std::string(1024, 'k')), "no error");
  EXPECT_THAT(error(std::string(1025, 'k')), HasSubstr("more than 1,024 bytes"));
}

}  // namespace
}  // namespace mlbench::objects
