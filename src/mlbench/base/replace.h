#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace mlbench {

// Replaces every `what` within the text by `by`, from left to right, in time linear in the text. Text that `by` brings
// is not searched. Precondition: `what` is not empty. `Char` is char or char32_t.
template <typename Char>
void replace_all(std::basic_string<Char>& text, std::type_identity_t<std::basic_string_view<Char>> what,
                 std::type_identity_t<std::basic_string_view<Char>> by) {
  size_t found = text.find(what);
  if (found == std::basic_string<Char>::npos) return;
  std::basic_string<Char> result;
  size_t copied = 0;
  for (; found != std::basic_string<Char>::npos; found = text.find(what, copied)) {
    result.append(text, copied, found - copied).append(by);
    copied = found + what.size();
  }
  text = result.append(text, copied);
}

}  // namespace mlbench
