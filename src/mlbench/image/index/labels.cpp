#include "mlbench/image/index/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"

namespace mlbench::image {

namespace {
constexpr std::array<std::string_view, 3> kImageNames = {".jpg", ".jpeg", ".png"};
}

std::string lower_extension(std::string_view extension) {
  std::string lower(extension);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

bool has_image_name(std::string_view name) {
  const std::string lower = lower_extension(name.substr(name.size() - std::min<size_t>(name.size(), 5)));
  return std::ranges::any_of(kImageNames, [&](std::string_view end) { return lower.ends_with(end); });
}

int64_t checked_label(int64_t label, int64_t labels, const std::string& where) {
  if (label >= 0 && label < labels) return label;
  throw UserError(fmt::format("{}: label {}, expected 0 to {}", where, label, labels - 1));
}

int64_t label_in(std::string_view text, int64_t labels, const std::string& where) {
  int64_t label = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (code != std::errc{} || end != text.data() + text.size()) {
    throw UserError(fmt::format("{}: label '{}', expected a class or a number from 0 to {}", where, printable(text, 50),
                                labels - 1));
  }
  return checked_label(label, labels, where);
}

}  // namespace mlbench::image
