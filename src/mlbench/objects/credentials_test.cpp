#include "mlbench/objects/credentials.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"
#include "mlbench/net/http/server.h"

namespace mlbench::objects {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The identity endpoints of a container and of an instance. Nothing of Amazon is asked in a test.
class FakeIdentity final : public net::http::Service {
 public:
  FakeIdentity() : server_(net::http::ServerOptions(), *this) {}
  std::string url() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }

  net::http::Admission begin(const net::http::Request&) override { return {.known = true}; }
  net::http::Response handle(const net::http::Request& request) override {
    net::http::Response response;
    ++requests;
    const std::string target = request.method + " " + request.raw_target;
    if (target == "PUT /latest/api/token" && request.header("X-aws-ec2-metadata-token-ttl-seconds") == "21600") {
      response.body = "session\n";
    } else if (target == "GET /latest/meta-data/iam/security-credentials/" &&
               request.header("X-aws-ec2-metadata-token") == "session") {
      response.body = "a role";
    } else if (target == "GET /latest/meta-data/iam/security-credentials/a%20role" &&
               request.header("X-aws-ec2-metadata-token") == "session") {
      response.body = answer;
    } else if (target == "GET /pod" && request.header("Authorization") == "pod's token") {
      response.body = answer;
    } else {
      response.status = 404;
    }
    return response;
  }

  std::string answer = R"({"Code": "Success", "AccessKeyId": "ASIA1", "SecretAccessKey": "s1", "Token": "t1",)"
                       R"( "Expiration": "2200-01-01T00:00:00Z"})";
  std::atomic<int> requests{0};

 private:
  net::http::Server server_;
};

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                             "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                             "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"}) {
      unsetenv(name);
    }
    setenv("AWS_SHARED_CREDENTIALS_FILE", file_.c_str(), 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  }
  std::string error() {
    return error_of([] { CredentialSource().get(); });
  }

  TemporaryFolder folder_;
  std::string file_ = (folder_ / "credentials").string();
};

TEST_F(CredentialsTest, TheEnvironmentComesFirst) {
  std::ofstream(file_) << "[default]\naws_access_key_id = a\naws_secret_access_key = b\n";
  setenv("AWS_ACCESS_KEY_ID", "AKIA", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("AWS_SESSION_TOKEN", "token", 1);
  CredentialSource source;
  const Credentials found = source.get();
  EXPECT_EQ(found.access_key, "AKIA");
  EXPECT_EQ(found.secret_key, "secret");
  EXPECT_EQ(found.session_token, "token");
  EXPECT_EQ(source.where(), "the environment");
}

TEST_F(CredentialsTest, AProfileIsReadAsOthersWriteIt) {
  const std::string token(3000, 'T');
  std::ofstream(file_) << "# mine\n[default]\naws_access_key_id=A\naws_secret_access_key = s/+=:#;x\n\n[lab]\n"
                       << "aws_access_key_id = L\naws_secret_access_key = l\naws_session_token = " << token << "\n";
  EXPECT_EQ(CredentialSource().get().secret_key, "s/+=:#;x");
  setenv("AWS_PROFILE", "lab", 1);
  const Credentials lab = CredentialSource().get();
  EXPECT_EQ(lab.access_key, "L");
  EXPECT_EQ(lab.session_token, token);
  setenv("AWS_PROFILE", "other", 1);
  EXPECT_THAT(error(), AllOf(HasSubstr(file_), HasSubstr("no profile 'other'")));
}

TEST_F(CredentialsTest, WhatCannotBeUsedIsSaidWithoutTheSecret) {
  EXPECT_THAT(error(), AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr(file_)));
  setenv("AWS_SECRET_ACCESS_KEY", "hunter2", 1);
  EXPECT_THAT(error(), AllOf(HasSubstr("without its secret key"), Not(HasSubstr("hunter2"))));
  setenv("AWS_ACCESS_KEY_ID", "hunter2\r\nX-Evil: 1", 1);
  EXPECT_THAT(error(), AllOf(HasSubstr("control character"), Not(HasSubstr("hunter2"))));
}

TEST_F(CredentialsTest, AContainersEndpointIsAskedWithItsToken) {
  FakeIdentity identity;
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", (identity.url() + "/pod").c_str(), 1);
  std::ofstream(folder_ / "token") << "pod's token\n";
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", (folder_ / "token").c_str(), 1);
  CredentialSource source;
  EXPECT_EQ(source.get().session_token, "t1");
  EXPECT_EQ(source.where(), "the container's identity endpoint");
  source.get();
  EXPECT_EQ(identity.requests, 1) << "credentials that last are not asked for again";
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://elsewhere.example/pod", 1);
  EXPECT_THAT(error(), HasSubstr("expected an https address"));
}

TEST_F(CredentialsTest, AnInstancesEndpointIsAskedForATokenFirst) {
  FakeIdentity identity;
  setenv("AWS_EC2_METADATA_DISABLED", "false", 1);
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", identity.url().c_str(), 1);
  CredentialSource source;
  EXPECT_EQ(source.get().access_key, "ASIA1");
  EXPECT_EQ(source.where(), "the instance's identity endpoint");
}

TEST_F(CredentialsTest, WhatExpiresIsAskedForAgain) {
  FakeIdentity identity;
  setenv("AWS_EC2_METADATA_DISABLED", "false", 1);
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", identity.url().c_str(), 1);
  const auto in = [](std::chrono::minutes time) { return format_utc(std::chrono::system_clock::now() + time); };
  const auto answer = [](const std::string& key, const std::string& expires) {
    return fmt::format(R"({{"AccessKeyId": "{}", "SecretAccessKey": "s", "Token": "t", "Expiration": "{}"}})", key,
                       expires);
  };
  identity.answer = answer("first", in(std::chrono::minutes(2)));
  CredentialSource source;
  EXPECT_EQ(source.get().access_key, "first");
  identity.answer = answer("second", in(std::chrono::minutes(60)));
  EXPECT_EQ(source.get().access_key, "second");
  identity.answer = answer("third", in(std::chrono::minutes(60)));
  EXPECT_EQ(source.get().access_key, "second");
}

TEST_F(CredentialsTest, AnEndpointsNonsenseIsRefused) {
  FakeIdentity identity;
  setenv("AWS_EC2_METADATA_DISABLED", "false", 1);
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", identity.url().c_str(), 1);
  for (const std::string& answer :
       {std::string("{}"), std::string("no JSON"), std::string(100'000, ' '),
        std::string(R"({"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "soon"})")}) {
    identity.answer = answer;
    EXPECT_NE(error(), "no error") << answer.substr(0, 100);
  }
}

}  // namespace
}  // namespace mlbench::objects
