#pragma once

// Every parser that bytes from outside reach, for libFuzzer (fuzz_parsers.cpp) and for crafted files
// (tests/damage/crafted_test.cpp).

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mlbench {

struct Parser {
  const char* name;
  // Refuses with the errors of its contract; anything else that it throws is a finding.
  void (*parse)(const std::string& input);
  // Good inputs, and such that are wrong in ways which no random change of bytes finds.
  std::vector<std::string> (*seeds)();
};

std::span<const Parser> parsers();
const Parser* find_parser(const std::string& name);

// parse() without the errors that it may throw.
void try_parser(const Parser& parser, const std::string& input);

}  // namespace mlbench
