#include "mlbench/net/http/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

namespace mlbench::net::http {

Gunzipped gunzip(std::string_view packed, size_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return {"", GzipError::kDamaged};
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  Gunzipped out;
  for (;;) {
    const size_t used = out.text.size();
    if (used > limit) return {"", GzipError::kTooLarge};
    out.text.resize(used + std::clamp<size_t>(packed.size() * 4, 4096, 1 << 20));
    stream.next_out = reinterpret_cast<Bytef*>(out.text.data() + used);
    stream.avail_out = static_cast<uInt>(out.text.size() - used);
    const int status = inflate(&stream, Z_NO_FLUSH);
    out.text.resize(out.text.size() - stream.avail_out);
    if (status == Z_STREAM_END) {
      if (stream.avail_in == 0) break;
      if (inflateReset(&stream) != Z_OK) return {"", GzipError::kDamaged};
    } else if (status != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) {
      return {"", GzipError::kDamaged};  // also a body that was cut
    }
  }
  if (out.text.size() > limit) return {"", GzipError::kTooLarge};
  return out;
}

}  // namespace mlbench::net::http
