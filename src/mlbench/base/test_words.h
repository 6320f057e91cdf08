#pragma once

// For tests: words of a command line, with many of the characters that mean something to shells and launchers.

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

class RandomWords {
 public:
  explicit RandomWords(uint32_t seed) : random_(seed) {}

  // Any bytes except NUL, which no argument can hold.
  std::string bytes() {
    constexpr std::string_view kOften = "$$$(()){}%%\\\\''\"\"`:::,,=@#~*?[];&|<>! \t\n-/x1";
    std::string word;
    for (size_t left = below(12); left > 0; --left) {
      word += below(4) == 0 ? static_cast<char>(1 + below(255)) : kOften[below(kOften.size())];
    }
    return word;
  }
  // A word in UTF-8.
  std::string text() {
    std::string word;
    for (const char c : bytes()) word += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : "\u00fc";
    return word;
  }
  // Draws a word as text() does, but sometimes one that means something to a launcher.
  std::string word() {
    constexpr std::array<const char*, 10> kTaken = {":",   "--mca", "-mca",    "--am",     "--tune",
                                                    "\\:", "\\\\",  "$(HOME)", "$$(RANK)", "-x"};
    return below(3) == 0 ? kTaken[below(kTaken.size())] : text();
  }
  std::vector<std::string> words() {
    std::vector<std::string> all(1 + below(6));
    for (std::string& one : all) one = word();
    return all;
  }
  // An absolute path, of any bytes.
  std::string path() {
    std::string path;
    for (size_t left = 1 + below(3); left > 0; --left) path += "/d" + bytes();
    return path;
  }

 private:
  size_t below(size_t end) { return random_() % end; }
  std::mt19937 random_;
};

}  // namespace mlbench
