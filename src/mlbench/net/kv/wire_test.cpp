#include "mlbench/net/kv/wire.h"

#include <gmock/gmock.h>

namespace mlbench::net::wire {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string frame_of(std::string_view body) {
  std::string frame;
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(body.size() >> shift & 0xff);
  return frame.append(body);
}

TEST(Wire, EncodesLengthAndCborObject) {
  // RFC 8949: map(1) 0xA1, text(2) 0x62 "id", unsigned 7.
  EXPECT_EQ(encode({{"id", 7}}), std::string("\0\0\0\5\xA1\x62id\x07", 9));
}

TEST(Wire, RoundTripKeepsBytesAndNumbers) {
  std::string every_byte;
  for (int value = 0; value < 256; ++value) every_byte += static_cast<char>(value);
  const Json sent = {
      {"id", int64_t{1} << 40}, {"negative", -3}, {"value", to_bytes(every_byte)}, {"empty", to_bytes("")}};
  FrameReader reader;
  reader.append(encode(sent));
  const auto received = reader.next(kMaxMessageBytes);
  ASSERT_TRUE(received);
  EXPECT_EQ(integer_in(*received, "id"), int64_t{1} << 40);
  EXPECT_EQ(integer_in(*received, "negative"), -3);
  EXPECT_EQ(bytes_in(*received, "value"), every_byte);
  EXPECT_EQ(bytes_in(*received, "empty"), "");
}

TEST(Wire, CutsAStreamIntoMessagesWhereverItIsSplit) {
  std::string stream;
  for (int id = 0; id < 5; ++id)
    stream += encode({{"id", id}, {"text", std::string(static_cast<size_t>(id) * 40, 'x')}});
  for (const size_t step : {size_t{1}, size_t{3}, size_t{64}, stream.size()}) {
    FrameReader reader;
    std::vector<int64_t> ids;
    for (size_t first = 0; first < stream.size(); first += step) {
      reader.append(std::string_view(stream).substr(first, step));
      while (const auto message = reader.next(kMaxMessageBytes)) ids.push_back(integer_in(*message, "id"));
    }
    EXPECT_EQ(ids, (std::vector<int64_t>{0, 1, 2, 3, 4})) << "split every " << step << " bytes";
  }
}

TEST(Wire, RefusesAnAnnouncedLengthAboveTheLimitAtOnce) {
  FrameReader reader;
  reader.append(std::string("\0\0\x10\1", 4));
  EXPECT_THAT([&] { reader.next(4096); },
              ThrowsMessage<ProtocolError>(HasSubstr("4097 bytes: at most 4096 are accepted")));
}

TEST(Wire, RefusesWhatIsNoObject) {
  const std::string deep = std::string(100, '\x81') + "\x01";                    // arrays in arrays
  const std::string very_deep(1 << 22, '\x81');                                  // would overflow the stack
  const std::string wide = "\xA1\x61k\x99\x20\x00" + std::string(8192, '\x01');  // array of 8192
  const std::string bad_text("\xA1\x61k\x62\xC3\x28", 6);                        // {"k": not UTF-8}
  const std::string bad_key("\xA1\x62\xC3\x28\x01", 5);
  const std::string truncated("\xA1\x61k", 3);
  const std::string endless("\xA1\x61k\x5B\xff\xff\xff\xff\xff\xff\xff\xff", 12);  // bytes of length 2^64 - 1
  const std::string trailing("\xA0\xA0", 2);
  for (const std::string& body : {std::string(), std::string("\x01"), std::string("\x80"), deep, very_deep, wide,
                                  bad_text, bad_key, truncated, endless, trailing}) {
    FrameReader reader;
    reader.append(frame_of(body));
    EXPECT_THROW(reader.next(kMaxMessageBytes), ProtocolError) << "body of " << body.size() << " bytes";
  }
}

TEST(Wire, NamesTheMemberThatIsMissingOrOfAnotherType) {
  const Json message = {{"id", "seven"}, {"huge", ~uint64_t{0}}, {"value", "text"}};
  EXPECT_THAT([&] { integer_in(message, "id"); }, ThrowsMessage<ProtocolError>(HasSubstr("\"id\"")));
  EXPECT_THAT([&] { integer_in(message, "huge"); }, ThrowsMessage<ProtocolError>(HasSubstr("\"huge\"")));
  EXPECT_THAT([&] { bytes_in(message, "value"); }, ThrowsMessage<ProtocolError>(HasSubstr("\"value\"")));
  EXPECT_THAT([&] { text_in(message, "key"); }, ThrowsMessage<ProtocolError>(HasSubstr("\"key\"")));
  EXPECT_THAT([&] { object_in(message, "value"); }, ThrowsMessage<ProtocolError>(HasSubstr("\"value\"")));
}

}  // namespace
}  // namespace mlbench::net::wire
