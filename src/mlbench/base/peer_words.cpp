#include "mlbench/base/peer_words.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "mlbench/base/printable.h"
#include "mlbench/base/to_number.h"

namespace mlbench {
namespace {

constexpr size_t kShownBytes = 100;
constexpr size_t kMostLabelBytes = 63;  // of a part of a host's name
constexpr size_t kMostZoneBytes = 15;   // an interface's name
constexpr size_t kMostPartBytes = 255;  // of a path
constexpr size_t kMostParts = 32;       // of a path, too

bool is_made_of(std::string_view text, std::string_view signs) {
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return (c < 128 && std::isalnum(c) != 0) || signs.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Whether each part between the separators is good.
template <typename Good>
bool each_part(std::string_view text, char separator, Good good) {
  for (size_t end = 0; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    if (!good(text.substr(0, end))) return false;
  }
  return good(text);
}

// Whether the text is a host's name, as users may name hosts, too (spec/hosts.h). Such a name is no option of a
// program and means nothing to a shell.
bool is_host(std::string_view text) {
  return is_made_of(text, ".-_") && text.front() != '-' && text.front() != '.' &&
         each_part(text, '.', [](std::string_view part) { return part.size() <= kMostLabelBytes; });
}

bool is_address(std::string_view text) {
  const size_t percent = std::min(text.find('%'), text.size());
  if (percent < text.size()) {
    const std::string_view zone = text.substr(percent + 1);
    if (zone.size() > kMostZoneBytes || !is_made_of(zone, "._-")) return false;
  }
  in6_addr ignored{};
  if (inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &ignored) == 1) {
    return text.substr(0, percent).find('\0') == std::string_view::npos;
  }
  return percent == text.size() && is_host(text);
}

bool is_peer_variable(std::string_view text) {
  return text == "MASTER_ADDR" || text == "MASTER_PORT" || (text.starts_with("HOROVOD_") && is_made_of(text, "_"));
}

bool is_line(std::string_view text) {
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; })) return false;
  return printable(text, text.size()) == text;  // text that is not UTF-8, or that misleads, would be escaped
}

bool is_path(std::string_view text) {
  if (!is_line(text) || std::ranges::count(text, '/') >= static_cast<std::ptrdiff_t>(kMostParts)) return false;
  return each_part(text, '/', [](std::string_view part) {
    return !part.empty() && part.size() <= kMostPartBytes && part != "." && part != "..";
  });
}

struct Type {
  WordType type;
  bool (*fits)(std::string_view text);
  std::string_view expected;
};
constexpr Type kTypes[] = {
    {WordType::kLabel, [](std::string_view text) { return is_made_of(text, "._:-") && text.front() != '-'; },
     "letters, digits and . _ : - are expected"},
    {WordType::kPeerVariable, is_peer_variable, "MASTER_ADDR, MASTER_PORT or HOROVOD_ and letters are expected"},
    {WordType::kHost, is_host, "a host name is expected"},
    {WordType::kAddress, is_address, "an IP address or a host name is expected"},
    {WordType::kAddresses, [](std::string_view text) { return each_part(text, ',', is_address); },
     "IP addresses or host names are expected"},
    {WordType::kPath, is_path, "a path below a folder is expected"},
    {WordType::kLine, is_line, "one line of UTF-8 is expected"},
    {WordType::kBytes, [](std::string_view) { return true; }, ""},
};

const Type& type_of(const PeerWord& row) { return *std::ranges::find(kTypes, row.type, &Type::type); }

size_t depth_of(const Json& value, size_t most) {
  if (!value.is_structured() || most == 0) return 0;
  size_t deepest = 0;
  for (const Json& each : value) deepest = std::max(deepest, depth_of(each, most - 1));
  return deepest + 1;
}

const Json* member_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return !object.is_object() || found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

bool fits(const PeerWord& row, std::string_view text) {
  return text.size() <= row.most_bytes && type_of(row).fits(text);
}

const std::string& checked(const PeerWord& row, const std::string& text) {
  if (text.size() > row.most_bytes) {
    throw PeerFault(fmt::format("{} of {} bytes: at most {} are expected", row.what, text.size(), row.most_bytes));
  }
  const Type& type = type_of(row);
  if (!type.fits(text)) {
    throw PeerFault(fmt::format("'{}' is not {}: {}", printable(text, kShownBytes), row.what, type.expected));
  }
  return text;
}

int64_t checked(const PeerNumber& row, int64_t number) {
  if (number >= row.least && number <= row.most) return number;
  throw PeerFault(fmt::format("{} is not {}: {} to {} is expected", number, row.what, row.least, row.most));
}

const Json& checked(const PeerObject& row, const Json& object) {
  if (!object.is_object()) throw PeerFault(fmt::format("{} is no object", row.what));
  if (depth_of(object, row.most_depth + 1) > row.most_depth) {
    throw PeerFault(fmt::format("{} is nested deeper than {} levels", row.what, row.most_depth));
  }
  const size_t bytes = object.dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (bytes <= row.most_bytes) return object;
  throw PeerFault(fmt::format("{} has {} bytes: at most {} are expected", row.what, bytes, row.most_bytes));
}

int64_t number_of(const PeerNumber& row, std::string_view text) {
  const auto number = to_number<int64_t>(text);
  if (!number) {
    throw PeerFault(fmt::format("'{}' is not {}: a whole number is expected", printable(text, kShownBytes), row.what));
  }
  return checked(row, *number);
}

std::string word_in(const Json& object, const char* name, const PeerWord& row, const std::string& otherwise) {
  const Json* member = member_of(object, name);
  if (member == nullptr) return otherwise;
  if (!member->is_string()) throw PeerFault(fmt::format("\"{}\" is no text: {} is expected", name, row.what));
  const auto& text = member->get_ref<const std::string&>();
  return text.empty() ? otherwise : checked(row, text);
}

int64_t number_in(const Json& object, const char* name, const PeerNumber& row, int64_t otherwise) {
  const Json* member = member_of(object, name);
  if (member == nullptr) return otherwise;
  if (!member->is_number_integer() || (member->is_number_unsigned() && member->get<uint64_t>() > uint64_t{INT64_MAX})) {
    throw PeerFault(fmt::format("\"{}\" is no whole number: {} is expected", name, row.what));
  }
  return checked(row, member->get<int64_t>());
}

std::string reason_of(const PeerWord& row, std::string_view text) {
  std::string shown = printable_lines(text.substr(0, row.most_bytes), "");
  if (text.size() > row.most_bytes) shown += fmt::format("... ({} bytes more)", text.size() - row.most_bytes);
  return shown;
}

std::string host_word(std::string name) {
  for (char& c : name) {
    if (c != '.' && !is_made_of({&c, 1}, "-_")) c = '-';
  }
  name.resize(std::min(name.size(), peer_words::kHost.most_bytes));
  return is_host(name) ? name : "unknown";
}

}  // namespace mlbench
