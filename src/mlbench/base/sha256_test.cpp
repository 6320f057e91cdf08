#include "mlbench/base/sha256.h"

#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

// FIPS 180-2, appendix B, and the empty message.
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), kEmpty);
  EXPECT_EQ(sha256_hex("abc"), kAbc);
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  Sha256 hash;
  const std::string piece(999, 'a');
  for (int i = 0; i < 1001; ++i) hash.update(piece);
  hash.update("a");
  EXPECT_EQ(hash.hex(), kMillionA);
}

TEST(Sha256, Files) {
  const std::string path = testing::TempDir() + "mlbench_sha256";
  write_file_atomically(path, "abc");
  EXPECT_EQ(sha256_hex_of_file(path), kAbc);
  write_file_atomically(path, "");
  EXPECT_EQ(sha256_hex_of_file(path), kEmpty);
  std::filesystem::remove(path);
  EXPECT_THROW(sha256_hex_of_file(path), IoError);
}

TEST(Hex, IsTwoDigitsAByte) {
  EXPECT_EQ(hex_of(std::string_view("\x00\xff\x1a!", 4)), "00ff1a21");
  EXPECT_EQ(hex_of(""), "");
}

TEST(RandomHex, HasTheLengthAndDiffers) {
  const std::string first = random_hex(16);
  EXPECT_EQ(first.size(), 32U);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, random_hex(16));
  EXPECT_EQ(random_hex(0), "");
}

}  // namespace
}  // namespace mlbench
