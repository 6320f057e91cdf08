#include "mlbench/net/http/message.h"

#include <strings.h>

#include <algorithm>

namespace mlbench::net::http {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

enum class Part { kSegment, kQuery, kForm };

std::optional<std::string> decode(std::string_view text, Part part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && part != Part::kSegment) {
      c = ' ';
    }
    if (part != Part::kForm && control(c)) return std::nullopt;
    out += c;
  }
  return out;
}

// Calls `part` for each piece of `text`; returns false as soon as `part` does.
template <typename Part>
bool split(std::string_view text, char separator, const Part& part) {
  for (;;) {
    const size_t end = text.find(separator);
    if (!part(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

std::optional<Fields> parse_pairs(std::string_view text, Part part) {
  Fields fields;
  const bool good = split(text, '&', [&](std::string_view piece) {
    if (piece.empty()) return true;
    const size_t equals = piece.find('=');
    auto key = decode(piece.substr(0, equals), part);
    auto value = decode(equals == std::string_view::npos ? "" : piece.substr(equals + 1), part);
    if (!key || !value) return false;
    fields.emplace_back(std::move(*key), std::move(*value));
    return true;
  });
  if (!good) return std::nullopt;
  return fields;
}

}  // namespace

std::optional<Target> parse_target(std::string_view raw) {
  if (!raw.starts_with('/') || raw.starts_with("//")) return std::nullopt;
  Target target;
  const size_t question = raw.find('?');
  std::string_view path = raw.substr(1, question == std::string_view::npos ? question : question - 1);
  if (path.ends_with('/')) path.remove_suffix(1);
  const bool good = path.empty() || split(path, '/', [&](std::string_view piece) {
                      auto segment = decode(piece, Part::kSegment);
                      if (!segment || segment->empty() || *segment == "." || *segment == "..") return false;
                      target.segments.push_back(std::move(*segment));
                      return true;
                    });
  if (!good) return std::nullopt;
  if (question == std::string_view::npos) return target;
  auto query = parse_pairs(raw.substr(question + 1), Part::kQuery);
  if (!query) return std::nullopt;
  target.query = std::move(*query);
  return target;
}

std::optional<Fields> parse_form(std::string_view body) { return parse_pairs(body, Part::kForm); }

std::string percent_encode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += {'%', kDigits[static_cast<unsigned char>(c) >> 4], kDigits[static_cast<unsigned char>(c) & 15]};
    }
  }
  return out;
}

std::string_view field(const Fields& fields, std::string_view name) {
  const auto same = [&](const auto& field) {
    return field.first.size() == name.size() && strncasecmp(field.first.data(), name.data(), name.size()) == 0;
  };
  const auto found = std::ranges::find_if(fields, same);
  return found == fields.end() ? std::string_view() : found->second;
}

std::string_view Request::header(std::string_view name) const { return field(headers, name); }

std::optional<std::string> Request::query(std::string_view name) const {
  for (auto one = target.query.rbegin(); one != target.query.rend(); ++one) {
    if (one->first == name) return one->second;
  }
  return std::nullopt;
}

std::string Request::content_type() const {
  const std::string_view full = header("Content-Type");
  std::string type(full.substr(0, full.find(';')));
  while (type.ends_with(' ')) type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return type;
}

}  // namespace mlbench::net::http
