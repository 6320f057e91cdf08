#pragma once

#include <memory>
#include <string>

#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

// Part of a bucket of an S3-compatible store. Requests are signed (Signature Version 4, by libcurl). A read is one
// request for its range, on one of the connections. What may pass (a broken or silent connection, 408, 429, 500, 502,
// 503, 504, bytes without the MD5 that is their ETag) is asked for again, from the missing byte on. The pauses before
// that double, and each is drawn between half and all of its length.
//
// A range comes with If-Match, so an object that was replaced is an error, never a mixture. An object that is read as a
// whole is compared with its ETag, where that is an MD5. Precondition of make_s3_store(): `place` begins with "s3://".
std::unique_ptr<ObjectStore> make_s3_store(const std::string& place, const StoreOptions& options);

}  // namespace mlbench::objects
