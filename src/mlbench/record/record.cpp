#include "mlbench/record/record.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/record/record_fields.h"
#include "mlbench/spec/former_names.h"

namespace mlbench::record {

namespace {

constexpr int64_t kMostWorkers = 65'536, kMostSegments = 10'000, kMostSpools = 500'000;

void check_counts(const Record& record, const std::string& where) {
  const auto ranks = record.workers.value_or(0), segments = segment_count(record);
  if (ranks < 0 || ranks > kMostWorkers || segments > kMostSegments || ranks * segments > kMostSpools) {
    throw UserError(
        fmt::format("{}: the record has {} workers and {} segments: more than any run", where, ranks, segments));
  }
}

void name_as_at_present(Record& record) {
  record.framework = spec::present_framework(record.framework);
  if (!record.effective || !record.effective->others.is_object()) return;
  const auto name = record.effective->others.find("name");
  if (name != record.effective->others.end() && name->is_string()) {
    *name = spec::present_framework(name->get_ref<const std::string&>());
  }
}

}  // namespace

Json to_json(const Record& record) { return written(record); }

Json to_json(const std::vector<Record>& records) {
  Json list = Json::array();
  for (const Record& record : records) list.push_back(to_json(record));
  return list;
}

Record record_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw UserError(fmt::format("{}: it is no JSON object", where));
  auto record = read_part<Record>(json, where);
  name_as_at_present(record);
  check_counts(record, where);
  return record;
}

bool host_sees_passes(const Record& record) {
  return record.emulated_step_s || !record.effective || !record.effective->device.starts_with("cuda");
}

int64_t segment_count(const Record& record) { return std::max<int64_t>(1, std::ssize(record.segments)); }

}  // namespace mlbench::record
