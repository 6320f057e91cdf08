#pragma once

// Who asks a store, found where other programs for S3 find it. No secret leaves this module but within a signature, or
// to the identity endpoint that asks for a token.

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace mlbench::objects {

struct Credentials {
  std::string access_key, secret_key;
  std::string session_token = {};                                     // "" for a key that lasts
  std::optional<std::chrono::system_clock::time_point> expires = {};  // of an identity endpoint
};

// The first of these that has credentials: the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN), the profile AWS_PROFILE (default: "default") of AWS_SHARED_CREDENTIALS_FILE (default:
// ~/.aws/credentials), the container's endpoint (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI), the instance's
// (169.254.169.254 or AWS_EC2_METADATA_SERVICE_ENDPOINT, unless AWS_EC2_METADATA_DISABLED is true). Safe on several
// threads.
class CredentialSource {
 public:
  // The credentials, which are asked for again 5 minutes before they expire. Throws UserError, with the places that
  // were looked at, where there are none.
  Credentials get();
  // Where they came from, for messages: "the environment"; "" before the first get().
  std::string where() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Credentials> credentials_;
  std::string where_;
};

// The setting of the profile in AWS_CONFIG_FILE (default: ~/.aws/config), such as "region"; "" where there is none.
std::string profile_setting(const std::string& name);

}  // namespace mlbench::objects
