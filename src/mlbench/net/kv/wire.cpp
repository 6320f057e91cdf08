#include "mlbench/net/kv/wire.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace mlbench::net::wire {

namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kMaxValues = 4096;

// Checks a body before anything is built from it: nlohmann's reader recurses, and does not check UTF-8.
class Inspector final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t& text) override { return count() && is_utf8(text); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(size_t) override { return count() && ++depth_ <= kDeepestNesting; }
  bool key(string_t& text) override { return is_utf8(text); }
  bool end_object() override { return --depth_, true; }
  bool start_array(size_t) override { return count() && ++depth_ <= kDeepestNesting; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool count() { return ++values_ <= kMaxValues; }
  static bool is_utf8(const std::string& text) {
    try {
      static_cast<void>(Json(text).dump());
      return true;
    } catch (const Json::type_error&) {
      return false;
    }
  }

  size_t depth_ = 0;
  size_t values_ = 0;
};

const Json& member(const Json& message, const char* name, Json::value_t type) {
  const auto found = message.find(name);
  const bool fits = found != message.end() &&
                    (found->type() == type ||
                     (type == Json::value_t::number_integer && found->type() == Json::value_t::number_unsigned));
  if (!fits) throw ProtocolError(fmt::format("a message without a valid \"{}\"", name));
  return *found;
}

}  // namespace

Transcript transcript_of(const Json& hello, std::string challenge) {
  return {"rendezvous", encode(hello), std::move(challenge)};
}

std::string encode(const Json& message) {
  std::string frame(kLengthBytes, '\0');
  Json::to_cbor(message, frame);
  const size_t size = frame.size() - kLengthBytes;
  if (size > kMaxMessageBytes) {
    throw CommError(fmt::format("a message of {} bytes: at most {} are possible", size, kMaxMessageBytes));
  }
  for (size_t i = 0; i < kLengthBytes; ++i) {
    frame[i] = static_cast<char>(static_cast<unsigned char>(size >> (8 * (kLengthBytes - 1 - i))));
  }
  return frame;
}

Json decode(std::string_view body) {
  Inspector inspector;
  if (!Json::sax_parse(body, &inspector, Json::input_format_t::cbor)) {
    throw ProtocolError("a message that is not well-formed");
  }
  Json message = Json::from_cbor(body);
  if (!message.is_object()) throw ProtocolError("a message that is no object");
  return message;
}

Json to_bytes(std::string_view text) { return Json::binary(std::vector<uint8_t>(text.begin(), text.end())); }

std::string from_bytes(const Json& value) {
  const auto& bytes = value.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

int64_t integer_in(const Json& message, const char* name) {
  const Json& value = member(message, name, Json::value_t::number_integer);
  if (value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
    throw ProtocolError(fmt::format("a message without a valid \"{}\"", name));
  }
  return value.get<int64_t>();
}
std::string text_in(const Json& message, const char* name) {
  return member(message, name, Json::value_t::string).get<std::string>();
}
std::string bytes_in(const Json& message, const char* name) {
  return from_bytes(member(message, name, Json::value_t::binary));
}
Json object_in(const Json& message, const char* name) { return member(message, name, Json::value_t::object); }

std::optional<Json> FrameReader::next(size_t limit) {
  const std::string_view unread = std::string_view(buffer_).substr(first_);
  if (unread.size() < kLengthBytes) return std::nullopt;
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) size = size << 8 | static_cast<unsigned char>(unread[i]);
  if (size > limit) throw ProtocolError(fmt::format("a message of {} bytes: at most {} are accepted", size, limit));
  if (unread.size() < kLengthBytes + size) return std::nullopt;
  Json message = decode(unread.substr(kLengthBytes, size));
  first_ += kLengthBytes + size;
  if (first_ == buffer_.size()) {
    buffer_ = {};
    first_ = 0;
  } else if (first_ > buffer_.size() / 2) {
    buffer_.erase(0, first_);
    first_ = 0;
  }
  return message;
}

}  // namespace mlbench::net::wire
