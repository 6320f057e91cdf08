#include "mlbench/record/step_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "mlbench/base/errors.h"

namespace mlbench::record {

namespace {

static_assert(std::endian::native == std::endian::little, "cells are copied to and from memory as they are");
static_assert(std::is_trivially_copyable_v<StepRecord> && std::is_standard_layout_v<StepRecord>);

constexpr std::string_view kMagic = "MLBSTEPS";
constexpr uint32_t kVersion = 2;
constexpr size_t kCell = 8;

struct FixedHeader {
  char magic[8] = {};
  uint32_t version = kVersion;
  uint32_t header_bytes = 0;
  uint64_t run_id = 0;
  uint32_t segment = 0;
  uint32_t rank = 0;
  int64_t start_wall_us = 0;
  uint32_t columns = 0;
  std::array<uint8_t, 16> identity = {};
  uint8_t reserved[4] = {};
};
static_assert(sizeof(FixedHeader) == 64);

struct StoredColumn {
  char name[24] = {};
  char type[8] = {};
};
static_assert(sizeof(StoredColumn) == 32);

struct Column {
  std::string name;
  std::string_view type;
  size_t offset;  // offset in StepRecord
};

constexpr std::string_view kEach = "i64[]";

// Columns without a cell per step come first.
const std::vector<Column>& columns() {
  static const std::vector<Column> list = [] {
    std::vector<Column> all = {
        {"sequence", "u64", offsetof(StepRecord, sequence)},
        {"first_step", "u64", offsetof(StepRecord, first_step)},
        {"count", "u64", offsetof(StepRecord, count)},
        {"epoch", "u64", offsetof(StepRecord, epoch)},
        {"samples", "u64", offsetof(StepRecord, samples)},
        {"loss_sum", "f64", offsetof(StepRecord, loss_sum)},
        {"lr", "f64", offsetof(StepRecord, lr)},
        {"end_ns", "i64", offsetof(StepRecord, end_ns)},
        {"bytes", "u64", offsetof(StepRecord, bytes)},
    };
    for (size_t kind = 0; kind < kStepKinds; ++kind) {
      all.push_back(
          {fmt::format("{}_ns", kStepKindNames[kind]), "i64", offsetof(StepRecord, kinds_ns) + kind * sizeof(int64_t)});
    }
    all.push_back({"exchange_ns", kEach, offsetof(StepRecord, exchange_ns)});
    all.push_back({"hidden_ns", kEach, offsetof(StepRecord, hidden_ns)});
    return all;
  }();
  return list;
}

template <size_t N>
std::string_view text_of(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

template <typename T>
void append_bytes(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

char* bytes_of(StepRecord& record) { return reinterpret_cast<char*>(&record); }

}  // namespace

std::array<uint8_t, 16> identity_bytes(const std::string& identity) {
  std::array<uint8_t, 16> bytes{};
  if (identity.size() != 2 * bytes.size()) return bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::from_chars(identity.data() + 2 * i, identity.data() + 2 * i + 2, bytes[i], 16);
  }
  return bytes;
}

std::string identity_text(std::span<const uint8_t, 16> bytes) {
  if (std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; })) return "";
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string encode_header(const SpoolHeader& header) {
  FixedHeader fixed;
  std::copy(kMagic.begin(), kMagic.end(), fixed.magic);
  fixed.columns = static_cast<uint32_t>(columns().size());
  fixed.header_bytes = static_cast<uint32_t>(sizeof fixed + columns().size() * sizeof(StoredColumn));
  fixed.run_id = header.run_id;
  fixed.segment = header.segment;
  fixed.rank = header.rank;
  fixed.start_wall_us = header.start_wall_us;
  fixed.identity = identity_bytes(header.identity);
  std::string bytes;
  append_bytes(bytes, fixed);
  for (const Column& column : columns()) {
    StoredColumn stored;
    column.name.copy(stored.name, sizeof stored.name);
    column.type.copy(stored.type, sizeof stored.type);
    append_bytes(bytes, stored);
  }
  return bytes;
}

void append_record(std::string& bytes, const StepRecord& record) {
  MLBENCH_CHECK(record.count >= 1 && record.count <= kMostMergedSteps,
                fmt::format("a record of {} steps", record.count));
  const char* from = reinterpret_cast<const char*>(&record);
  for (const Column& column : columns()) {
    bytes.append(from + column.offset, column.type == kEach ? kCell * record.count : kCell);
  }
}

std::optional<StepFormat> StepFormat::parse(const std::filesystem::path& path, std::string_view bytes) {
  const auto refuse = [&](const std::string& why) { throw UserError(path.string() + ": " + why); };
  FixedHeader fixed;
  if (bytes.size() < sizeof fixed) {
    // The rank was killed while it wrote the header.
    if (kMagic.starts_with(bytes.substr(0, kMagic.size())) || bytes.starts_with(kMagic)) return std::nullopt;
    refuse(fmt::format("not a spool: {} bytes without its header", bytes.size()));
  }
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (!bytes.starts_with(kMagic)) refuse("not a spool: it does not start with MLBSTEPS");
  if (fixed.version != kVersion) {
    refuse(fmt::format("a spool of version {}; this program reads version {}: use the mlbench that wrote it",
                       fixed.version, kVersion));
  }
  StepFormat format;
  format.header_ = {fixed.run_id, fixed.segment, fixed.rank, fixed.start_wall_us, identity_text(fixed.identity)};
  if (fixed.start_wall_us < 0 || fixed.start_wall_us > kMostInteger) {
    refuse(fmt::format("a spool that began {} us after 1970", fixed.start_wall_us));
  }

  const size_t header_bytes = sizeof fixed + size_t{fixed.columns} * sizeof(StoredColumn);
  if (fixed.header_bytes != header_bytes || header_bytes > kMostHeaderBytes) {
    refuse(fmt::format("damaged: a header of {} bytes with {} columns", fixed.header_bytes, fixed.columns));
  }
  if (bytes.size() < header_bytes) return std::nullopt;
  format.header_bytes_ = header_bytes;
  std::vector<bool> found(columns().size());
  for (size_t i = 0; i < fixed.columns; ++i) {
    StoredColumn stored;
    std::memcpy(&stored, bytes.data() + sizeof fixed + i * sizeof stored, sizeof stored);
    const bool each = text_of(stored.type).ends_with("[]");
    const auto known = std::find_if(columns().begin(), columns().end(),
                                    [&](const Column& column) { return column.name == text_of(stored.name); });
    if (known != columns().end()) {
      if (known->type != text_of(stored.type)) {
        refuse(fmt::format("column {} is of type '{}'; expected '{}'", known->name, text_of(stored.type), known->type));
      }
      found[static_cast<size_t>(known - columns().begin())] = true;
      if (each) format.each_.push_back({format.each_columns_, known->offset});
      if (!each) format.cells_.push_back({format.fixed_bytes_, known->offset});
    }
    each ? ++format.each_columns_ : format.fixed_bytes_ += kCell;
  }
  for (size_t i = 0; i < columns().size(); ++i) {
    if (found[i]) continue;
    refuse(fmt::format("a spool without the column {}: use the mlbench that wrote it", columns()[i].name));
  }
  return format;
}

std::optional<size_t> StepFormat::decode(std::string_view bytes, StepRecord& record) const {
  if (bytes.size() < fixed_bytes_) return 0;
  record = {};
  for (const Cell& cell : cells_) std::memcpy(bytes_of(record) + cell.to, bytes.data() + cell.from, kCell);
  if (record.count > kMostMergedSteps) return std::nullopt;
  const size_t size = fixed_bytes_ + each_columns_ * record.count * kCell;
  if (bytes.size() < size) return 0;
  for (const EachCell& cell : each_) {
    std::memcpy(bytes_of(record) + cell.to, bytes.data() + fixed_bytes_ + cell.index * record.count * kCell,
                record.count * kCell);
  }
  return size;
}

}  // namespace mlbench::record
