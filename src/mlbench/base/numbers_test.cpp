#include "mlbench/base/numbers.h"

#include <gmock/gmock.h>

#include <limits>

#include "mlbench/base/errors.h"
#include "mlbench/base/to_number.h"

namespace mlbench {
namespace {

using testing::ThrowsMessage;

constexpr Range kCounts{1, 1000}, kReals{1e-6, 1e6}, kTimes{0.001, 86400};

// What no kind of number takes.
const std::vector<std::string> kNever = {"",      " ",   "abc", " 5",    "5 ",       "+5",     "-5",    "0x10",
                                         "0x1p3", "nan", "inf", "-inf",  "infinity", "1e308h", "1e999", "9e18",
                                         "1e18",  "5d",  "--5", "1,000", "1e400",    "-1e308", "1e308"};

TEST(Numbers, CountsAreDigitsWithinTheirRange) {
  EXPECT_EQ(parse_count("1", "-n", kCounts), 1);
  EXPECT_EQ(parse_count("0017", "-n", kCounts), 17);
  EXPECT_EQ(parse_count("1000", "-n", kCounts), 1000);
  EXPECT_EQ(parse_count("0", "-n", {0, 9007199254740992}), 0);
  EXPECT_EQ(parse_count("9007199254740992", "-n", {0, 9007199254740992}), int64_t{1} << 53);
  std::vector<std::string> wrong = kNever;
  for (const char* more : {"0", "1001", "-0", "1.0", "1e2", "5s", "9223372036854775808", "99999999999999999999"}) {
    wrong.emplace_back(more);
  }
  for (const std::string& text : wrong) EXPECT_THROW(parse_count(text, "-n", kCounts), UserError) << text;
  EXPECT_THROW(parse_count("-0", "-n", {0, 5}), UserError);
  EXPECT_THAT([] { parse_count("1e3", "--repeat", kCounts); },
              ThrowsMessage<UserError>("--repeat '1e3' is not a whole number from 1 to 1000"));
}

TEST(Numbers, RealsAreFiniteAndWithinTheirRange) {
  EXPECT_EQ(parse_real("1e-6", "-x", kReals), 1e-6);
  EXPECT_EQ(parse_real("2.5", "-x", kReals), 2.5);
  EXPECT_EQ(parse_real("1e6", "-x", kReals), 1e6);
  std::vector<std::string> wrong = kNever;
  for (const char* more : {"0", "-0", "9.9e-7", "1000000.1", "1e-400"}) wrong.emplace_back(more);
  for (const std::string& text : wrong) EXPECT_THROW(parse_real(text, "-x", kReals), UserError) << text;
  EXPECT_THAT([] { parse_real("nan", "--max-epochs", kReals); },
              ThrowsMessage<UserError>("--max-epochs 'nan' is not a number from 1e-06 to 1000000"));
}

TEST(Numbers, TimesHaveUnits) {
  EXPECT_EQ(parse_duration("90", "-t", kTimes), 90);
  EXPECT_EQ(parse_duration("90s", "-t", kTimes), 90);
  EXPECT_EQ(parse_duration("150ms", "-t", kTimes), 0.15);
  EXPECT_EQ(parse_duration("5m", "-t", kTimes), 300);
  EXPECT_EQ(parse_duration("1.5h", "-t", kTimes), 5400);
  EXPECT_EQ(parse_duration("0.001", "-t", kTimes), 0.001);
  EXPECT_EQ(parse_duration("24h", "-t", kTimes), 86400);
  std::vector<std::string> wrong = kNever;
  for (const char* more : {"0", "0s", "-0h", "0.0009", "24.001h", "5 m", "5M", "h", "5mm"}) wrong.emplace_back(more);
  for (const std::string& text : wrong) EXPECT_THROW(parse_duration(text, "-t", kTimes), UserError) << text;
  EXPECT_THAT([] { parse_duration("1e308h", "--max-time", kTimes); },
              ThrowsMessage<UserError>("--max-time '1e308h' is not a time from 0.001s to 24h: seconds, or with a unit, "
                                       "such as 150ms, 90s, 5m, 2h"));
  EXPECT_EQ(duration_text({1, 90}), "from 1s to 90s");
  EXPECT_EQ(duration_text({60, 31'536'000}), "from 1m to 8760h");
}

TEST(Numbers, SeedsAreAny64Bits) {
  EXPECT_EQ(parse_seed("0", "--seed"), 0U);
  EXPECT_EQ(parse_seed("18446744073709551615", "--seed"), std::numeric_limits<uint64_t>::max());
  for (const char* text : {"", "-1", "-0", "+1", "1.0", "1e3", "18446744073709551616", "abc", "nan", " 1"}) {
    EXPECT_THROW(parse_seed(text, "--seed"), UserError) << text;
  }
}

TEST(Numbers, NothingLiesInARangeThatIsNoNumber) {
  EXPECT_FALSE(kReals.contains(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(kReals.contains(std::numeric_limits<double>::infinity()));
  EXPECT_FALSE(kReals.contains(-std::numeric_limits<double>::infinity()));
}

TEST(Numbers, AnyTextIsANumberAsAWholeOrNone) {
  EXPECT_EQ(to_number<int64_t>("-12"), -12);
  EXPECT_EQ(to_number<double>("1.5e3"), 1500);
  EXPECT_EQ(to_number<uint16_t>("65536"), std::nullopt);
  for (const char* none : {"", " 1", "1 ", "+1", "1.5", "0x10", "one"}) {
    EXPECT_EQ(to_number<int>(none), std::nullopt) << none;
  }
}

TEST(Numbers, LongTextsAreCutInMessages) {
  EXPECT_THAT([] { parse_count(std::string(100'000, '9'), "-n", kCounts); },
              ThrowsMessage<UserError>("-n '" + std::string(60, '9') + "...' is not a whole number from 1 to 1000"));
}

}  // namespace
}  // namespace mlbench
