#pragma once

// Where an S3-compatible store is, and the addresses of what lies there.

#include <string>
#include <string_view>

#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

struct Location {
  std::string endpoint;  // "https://s3.us-east-1.amazonaws.com", without a / at its end
  std::string region;
  bool is_virtual = false;  // the bucket is part of the host's name, not of the path
  std::string bucket;
  std::string prefix;  // "" or ends with /

  // "s3://BUCKET/PREFIX"
  std::string place() const;
  // The address of an object, by its whole key, or of the bucket (""), percent-encoded.
  std::string url(std::string_view key) const;
};

// What `place`, "s3://BUCKET[/PREFIX]", and options or the environment say. Throws UserError for a bucket, a prefix, a
// region, a style or an endpoint that is none; an endpoint with a name and password is refused.
Location locate(const std::string& place, const StoreOptions& options);

}  // namespace mlbench::objects
