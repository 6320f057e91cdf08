#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "mlbench/base/choices.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/system_error.h"
#include "mlbench/checkpoint/checkpoint.h"

namespace mlbench::checkpoint {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "tensors are stored as they are in memory");

namespace {

constexpr uint64_t kMostHeaderBytes = inputs::kTensorHeader.most_bytes;
constexpr size_t kAlignment = 8;

struct Row {
  DType dtype;
  std::string_view name;
};
constexpr std::array<Row, 8> kTypes = {{{DType::kUInt8, "U8"},
                                        {DType::kInt8, "I8"},
                                        {DType::kInt32, "I32"},
                                        {DType::kInt64, "I64"},
                                        {DType::kFloat16, "F16"},
                                        {DType::kBFloat16, "BF16"},
                                        {DType::kFloat32, "F32"},
                                        {DType::kFloat64, "F64"}}};

std::string_view type_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const Row& row) { return row.dtype == dtype; })->name;
}

// The number of bytes of a shape; empty when it does not fit into 64 bits.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, DType dtype) {
  uint64_t bytes = size_of(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

using Entry = std::pair<const std::string, HostTensor>;

// Wide types come first, so that every tensor lies at a multiple of its element's size.
std::vector<const Entry*> in_file_order(const std::map<std::string, HostTensor>& tensors) {
  std::vector<const Entry*> order;
  for (const Entry& entry : tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return size_of(a->second.dtype) > size_of(b->second.dtype); });
  return order;
}

std::string make_header(const std::vector<const Entry*>& order) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    MLBENCH_CHECK(bytes_of(tensor.shape, tensor.dtype) == tensor.bytes.size(),
                  "tensor '" + name + "' has other bytes than its shape");
    MLBENCH_CHECK(name != "__metadata__", "a name that safetensors reserves");
    header[name] = {{"dtype", type_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

class Reader {
 public:
  Reader(const fs::path& file, std::span<const std::byte> bytes) : file_(file.string()), bytes_(bytes) {}

  std::map<std::string, HostTensor> read() {
    const Json header = read_header();
    std::map<std::string, HostTensor> tensors;
    std::vector<std::array<uint64_t, 2>> ranges;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      ranges.push_back(read_tensor(name, entry, tensors[name]));
    }
    std::sort(ranges.begin(), ranges.end());
    uint64_t end = 0;
    for (const auto& range : ranges) {
      if (range[0] != end) fail(fmt::format("data from byte {} to {} belongs to no tensor or to two", end, range[0]));
      end = range[1];
    }
    if (end != data_.size()) fail(fmt::format("{} bytes of data, the header describes {}", data_.size(), end));
    return tensors;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw UserError(file_ + ": damaged: " + text); }

  Json read_header() {
    if (bytes_.size() < sizeof(uint64_t)) {
      fail(fmt::format("{} bytes; a safetensors file starts with 8 bytes of header length", bytes_.size()));
    }
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    const uint64_t room = bytes_.size() - sizeof length;
    if (length > std::min(room, kMostHeaderBytes)) {
      fail(fmt::format("a header of {} bytes; the file has room for {}", length, std::min(room, kMostHeaderBytes)));
    }
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + sizeof length;
    Json header = nullptr;
    try {
      header = parse_json({text, length}, inputs::kTensorHeader);
    } catch (const UserError& error) {
      fail(fmt::format("its header is not a JSON object: {}", error.what()));
    }
    if (!header.is_object()) fail("its header is not a JSON object");
    data_ = bytes_.subspan(sizeof length + length);
    return header;
  }

  std::array<uint64_t, 2> read_tensor(const std::string& name, const Json& entry, HostTensor& tensor) const {
    const std::string who = "tensor '" + name + "'";
    if (!entry.is_object()) fail(who + " is not described by a JSON object");
    const Json dtype = entry.value("dtype", Json());
    const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const Row& r) { return dtype == r.name; });
    if (row == kTypes.end()) {
      fail(fmt::format("{} has dtype {}; expected one of {}", who, dtype.dump(), fmt::join(names_of(kTypes), ", ")));
    }
    tensor.dtype = row->dtype;

    const Json shape = entry.value("shape", Json());
    const auto natural = [](const Json& value) { return value.is_number_unsigned(); };
    if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), natural)) {
      fail(fmt::format("{} has shape {}; expected a list of integers", who, shape.dump()));
    }
    tensor.shape = shape.get<std::vector<int64_t>>();

    const Json offsets = entry.value("data_offsets", Json());
    if (!offsets.is_array() || offsets.size() != 2 || !natural(offsets[0]) || !natural(offsets[1])) {
      fail(fmt::format("{} has data_offsets {}; expected two integers", who, offsets.dump()));
    }
    const auto first = offsets[0].get<uint64_t>();
    const auto end = offsets[1].get<uint64_t>();
    if (first > end || end > data_.size()) {
      fail(fmt::format("{} lies at {}..{} of {} bytes of data", who, first, end, data_.size()));
    }
    if (bytes_of(tensor.shape, tensor.dtype) != end - first) {
      fail(fmt::format("{} has {} bytes, its shape {} of {} needs {}", who, end - first, shape.dump(), row->name,
                       bytes_of(tensor.shape, tensor.dtype).value_or(UINT64_MAX)));
    }
    const auto bytes = data_.subspan(first, end - first);
    tensor.bytes.assign(bytes.begin(), bytes.end());
    return {first, end};
  }

  std::string file_;
  std::span<const std::byte> bytes_, data_;
};

}  // namespace

void write_safetensors(const fs::path& file, const std::map<std::string, HostTensor>& tensors) {
  const auto order = in_file_order(tensors);
  const std::string header = make_header(order);
  const uint64_t length = header.size();

  const fs::path temporary = file.string() + ".tmp" + std::to_string(getpid());
  try {
    const FileDescriptor fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) throw_system_error("cannot write " + file.string(), errno);
    write_all(fd.get(), {reinterpret_cast<const char*>(&length), sizeof length}, file.string());
    write_all(fd.get(), header, file.string());
    for (const Entry* entry : order) {
      const auto& bytes = entry->second.bytes;
      write_all(fd.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
    }
    sync_file(fd.get(), file);
    if (rename(temporary.c_str(), file.c_str()) != 0) {
      throw_system_error("cannot rename to " + file.string(), errno);
    }
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  sync_directory(file.has_parent_path() ? file.parent_path() : ".");
}

std::map<std::string, HostTensor> read_safetensors(const fs::path& file) {
  const MappedFile mapped(file);
  return Reader(file, mapped.bytes()).read();
}

}  // namespace mlbench::checkpoint
