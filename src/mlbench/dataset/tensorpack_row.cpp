#include "mlbench/dataset/tensorpack_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"

namespace mlbench::dataset {

namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
T from_bytes(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// MessagePack from front to back: the kinds of values that a row has. A value begins with a byte that says its kind,
// and holds its length where that is short; numbers behind that byte are big-endian.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  uint32_t list() { return count("a list", 0x90, 0xDC); }
  uint32_t map() { return count("a map", 0x80, 0xDE); }
  bool at_map() const { return at_ < bytes_.size() && is_short(head(), 0x80, 0xF0); }

  bool boolean() {
    if (head() != 0xC2 && head() != 0xC3) fail("true or false");
    return number_of<uint8_t>() == 0xC3;
  }
  // Text or bytes.
  std::string_view text() {
    const uint8_t kind = head();
    if (is_short(kind, 0xA0, 0xE0)) return take(number_of<uint8_t>() & 0x1F);
    const bool one = kind == 0xC4 || kind == 0xD9, two = kind == 0xC5 || kind == 0xDA;
    if (!one && !two && kind != 0xC6 && kind != 0xDB) fail("text or bytes");
    ++at_;
    return take(one ? number_of<uint8_t>() : two ? number_of<uint16_t>() : number_of<uint32_t>());
  }
  double number() {
    const uint8_t kind = head();
    if (kind < 0x80 || kind >= 0xE0) return number_of<int8_t>();
    if (kind < 0xCA || kind > 0xD3) fail("a number");
    ++at_;
    switch (kind) {
      case 0xCA:
        return number_of<float>();
      case 0xCB:
        return number_of<double>();
      case 0xCC:
        return number_of<uint8_t>();
      case 0xCD:
        return number_of<uint16_t>();
      case 0xCE:
        return number_of<uint32_t>();
      case 0xCF:
        return static_cast<double>(number_of<uint64_t>());
      case 0xD0:
        return number_of<int8_t>();
      case 0xD1:
        return number_of<int16_t>();
      case 0xD2:
        return number_of<int32_t>();
      default:
        return static_cast<double>(number_of<int64_t>());
    }
  }
  void expect_end() const {
    if (at_ != bytes_.size()) throw UserError(fmt::format("{} bytes follow the label", bytes_.size() - at_));
  }

 private:
  static bool is_short(uint8_t head, uint8_t kind, uint8_t mask) { return (head & mask) == kind; }

  uint8_t head() const {
    if (at_ == bytes_.size()) throw UserError(fmt::format("the row ends within a value, at byte {}", at_));
    return static_cast<uint8_t>(bytes_[at_]);
  }
  [[noreturn]] void fail(const char* expected) const {
    throw UserError(fmt::format("byte {} is 0x{:02x}, expected {}", at_, head(), expected));
  }
  std::string_view take(size_t length) {
    if (length > bytes_.size() - at_) {
      throw UserError(fmt::format("the row ends within a value of {} bytes from byte {} on, of which it has {}", length,
                                  at_, bytes_.size() - at_));
    }
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  template <typename T>
  T number_of() {
    std::array<char, sizeof(T)> bytes;
    std::ranges::reverse_copy(take(sizeof(T)), bytes.begin());
    return from_bytes<T>(bytes.data());
  }
  uint32_t count(const char* what, uint8_t short_kind, uint8_t long_kind) {
    const uint8_t kind = head();
    if (!is_short(kind, short_kind, 0xF0) && kind != long_kind && kind != long_kind + 1) fail(what);
    ++at_;
    if (kind == long_kind) return number_of<uint16_t>();
    return kind == long_kind + 1 ? number_of<uint32_t>() : kind & 0x0FU;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

struct NumberType {
  std::string_view name;  // as NumPy spells it
  size_t bytes;
  double (*read)(const char* bytes);
};
template <typename T>
double read_number(const char* bytes) {
  return static_cast<double>(from_bytes<T>(bytes));
}
constexpr NumberType kNumberTypes[] = {{"<f8", 8, read_number<double>},
                                       {"<f4", 4, read_number<float>},
                                       {"<i8", 8, read_number<int64_t>},
                                       {"<i4", 4, read_number<int32_t>}};

// A value of NumPy, as its map says; what the map lacks is empty.
struct NumpyValue {
  std::optional<bool> array;
  std::optional<std::string_view> type, kind, data;
  std::optional<double> extent;  // of an array of one dimension

  const NumberType& number_type(const char* what) const {
    const auto* const row = std::ranges::find(kNumberTypes, *type, &NumberType::name);
    if (row == std::end(kNumberTypes)) {
      throw UserError(
          fmt::format("the {} are of type '{}', expected <f8, <f4, <i8 or <i4", what, printable(*type, 40)));
    }
    return *row;
  }
};

template <typename T>
void set_once(std::optional<T>& member, T value, std::string_view key) {
  if (member) throw UserError(fmt::format("a value of NumPy has '{}' twice", key));
  member = value;
}

NumpyValue read_numpy(MessageReader& reader, const char* what) {
  NumpyValue value;
  for (uint32_t left = reader.map(); left > 0; --left) {
    const std::string_view key = reader.text();
    if (key == "nd") {
      set_once(value.array, reader.boolean(), key);
    } else if (key == "type") {
      set_once(value.type, reader.text(), key);
    } else if (key == "kind") {
      set_once(value.kind, reader.text(), key);
    } else if (key == "data") {
      set_once(value.data, reader.text(), key);
    } else if (key == "shape") {
      const uint32_t dimensions = reader.list();
      if (dimensions != 1) throw UserError(fmt::format("the {} have {} dimensions, expected one", what, dimensions));
      set_once(value.extent, reader.number(), key);
    } else {
      throw UserError(
          fmt::format("a value of NumPy has '{}'; expected nd, type, kind, shape and data", printable(key, 40)));
    }
  }
  if (!value.array || !value.type || !value.data || (value.kind && !value.kind->empty())) {
    throw UserError(fmt::format("the {} are no numbers of NumPy, with nd, type and data", what));
  }
  return value;
}

void read_features(MessageReader& reader, std::span<float> features) {
  const NumpyValue value = read_numpy(reader, "features");
  const NumberType& type = value.number_type("features");
  const auto expected = static_cast<double>(features.size());
  if (!*value.array || value.extent != expected || value.data->size() != features.size() * type.bytes) {
    throw UserError(fmt::format("the features are {} of {} bytes, expected an array of {} numbers of {} bytes each",
                                value.extent ? fmt::format("{} numbers", *value.extent) : "no array",
                                value.data->size(), features.size(), type.bytes));
  }
  const char* bytes = value.data->data();
  for (float& feature : features) {
    const double number = type.read(bytes);
    bytes += type.bytes;
    if (!(std::abs(number) <= double{std::numeric_limits<float>::max()})) {
      throw UserError(
          fmt::format("feature {} is {}, expected a finite number of 32 bits", &feature - features.data() + 1, number));
    }
    feature = static_cast<float>(number);
  }
}

double read_label(MessageReader& reader) {
  if (!reader.at_map()) return reader.number();
  const NumpyValue value = read_numpy(reader, "label");
  const NumberType& type = value.number_type("label");
  if (*value.array || value.data->size() != type.bytes) {
    throw UserError(
        fmt::format("the label is of {} bytes, expected one number of {} bytes", value.data->size(), type.bytes));
  }
  return type.read(value.data->data());
}

bool is_pickle(std::string_view row) {
  constexpr std::string_view kProtocol = "\x80";
  return row.size() > 1 && row.starts_with(kProtocol) && row[1] >= 2 && row[1] <= 5;
}

}  // namespace

double read_tensorpack_row(std::string_view row, std::span<float> features) {
  if (is_pickle(row)) {
    throw UserError(
        "a pickle of Python, which is never loaded, since it may run any program. Write the database with "
        "TENSORPACK_SERIALIZE=msgpack, or take LIBSVM's text");
  }
  MessageReader reader(row);
  if (const uint32_t values = reader.list(); values != 2) {
    throw UserError(fmt::format("a list of {} values, expected features and label", values));
  }
  read_features(reader, features);
  const double label = read_label(reader);
  reader.expect_end();
  return label;
}

}  // namespace mlbench::dataset
