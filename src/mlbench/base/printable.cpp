#include "mlbench/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace mlbench {

namespace {

struct Symbol {
  char32_t code = 0;
  size_t bytes = 0;  // 0: the text does not begin with UTF-8
};

Symbol first_symbol(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const size_t bytes = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < bytes) return {};
  char32_t code = byte(0) & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kSmallest[bytes] || code > 0x10FFFF || surrogate ? Symbol{} : Symbol{code, bytes};
}

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7F && code <= 0x9F); }

// Whether the character separates lines or paragraphs, or changes the direction of writing.
bool misleads(char32_t code) {
  return code == 0x61C || code == 0x200E || code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

// Appends the first symbol of `text`, escaped where it must be, and returns how many bytes it has.
size_t append_symbol(std::string& out, std::string_view text) {
  const Symbol symbol = first_symbol(text);
  const auto to = std::back_inserter(out);
  if (symbol.bytes == 0) {
    fmt::format_to(to, "\\x{:02x}", static_cast<unsigned char>(text[0]));
    return 1;
  }
  if (symbol.code == '\n') {
    out += "\\n";
  } else if (symbol.code == '\r') {
    out += "\\r";
  } else if (symbol.code == '\t') {
    out += "\\t";
  } else if (is_control(symbol.code)) {
    fmt::format_to(to, "\\x{:02x}", static_cast<uint32_t>(symbol.code));
  } else if (misleads(symbol.code)) {
    fmt::format_to(to, "\\u{:04x}", static_cast<uint32_t>(symbol.code));
  } else {
    out += text.substr(0, symbol.bytes);
  }
  return symbol.bytes;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t at = 0;
  while (at < text.size() && at < max_bytes) at += append_symbol(out, text.substr(at));
  if (at < text.size()) fmt::format_to(std::back_inserter(out), "... ({} bytes more)", text.size() - at);
  return out;
}

std::string printable_lines(std::string_view text, std::string_view indent) {
  const auto plain = [](char byte) { return byte >= 0x20 && byte < 0x7F; };
  if (std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      out += '\n';
      out += indent;
      ++at;
    } else {
      at += append_symbol(out, text.substr(at));
    }
  }
  return out;
}

std::string printable_json(std::string json) {
  const auto plain = [](char byte) { return static_cast<unsigned char>(byte) < 0x7F; };
  if (std::ranges::all_of(json, plain)) return json;
  std::string out;
  for (std::string_view rest = json; !rest.empty();) {
    const Symbol symbol = first_symbol(rest);
    const size_t bytes = std::max<size_t>(symbol.bytes, 1);
    if (symbol.code >= 0x7F && (is_control(symbol.code) || misleads(symbol.code))) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint32_t>(symbol.code));
    } else {
      out += rest.substr(0, bytes);
    }
    rest.remove_prefix(bytes);
  }
  return out;
}

}  // namespace mlbench
