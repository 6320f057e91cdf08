#pragma once

// Reads a number from a text of a program or a file. For what users give, numbers.h also says what is wrong with it.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace mlbench {

// The number that the whole text is, by std::from_chars: no white space, no leading '+'. Empty for other texts.
template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  Number value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

}  // namespace mlbench
