#include <fmt/format.h>

#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/image/index/example.pb.h"
#include "mlbench/image/index/labels.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

// The image and a few words about it.
constexpr int64_t kMostRecordBytes = kMostImageBytes + (int64_t{1} << 20);

constexpr const char* kEncoded = "image/encoded";
constexpr const char* kLabel = "image/class/label";
constexpr const char* kFileName = "image/filename";

const tensorflow::Feature* feature_of(const tensorflow::Example& example, const char* name) {
  const auto& all = example.features().feature();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

// The one text of a feature; nullptr where the feature is absent or something else.
const std::string* text_of(const tensorflow::Example& example, const char* name) {
  const tensorflow::Feature* feature = feature_of(example, name);
  return feature != nullptr && feature->bytes_list().value_size() == 1 ? &feature->bytes_list().value(0) : nullptr;
}

// Where a text of a message lies in it. The first place that begins like the text is it, as a rule: memmem() has to
// prepare for a long one, which takes longer than all the rest.
int64_t place_of(const std::string& text, const std::string& message) {
  constexpr size_t kBeginning = 16;
  const size_t first = message.find(std::string_view(text).substr(0, kBeginning));
  if (first != std::string::npos && message.compare(first, text.size(), text) == 0) return static_cast<int64_t>(first);
  const auto* at = static_cast<const char*>(memmem(message.data(), message.size(), text.data(), text.size()));
  MLBENCH_CHECK(at != nullptr, "a text lies in one piece in its message");
  return at - message.data();
}

Sample sample_of(const tfrecord::RecordReader::Record& record, int64_t labels, int64_t first_label,
                 const std::string& where) {
  tensorflow::Example example;
  if (!example.ParseFromString(record.bytes)) throw UserError(where + ": no tf.train.Example");
  const std::string* encoded = text_of(example, kEncoded);
  if (encoded == nullptr || encoded->empty())
    throw UserError(fmt::format("{}: has no {} of one text", where, kEncoded));
  const tensorflow::Feature* label = feature_of(example, kLabel);
  if (label == nullptr || label->int64_list().value_size() != 1) {
    throw UserError(fmt::format("{}: has no {} of one number", where, kLabel));
  }
  const int64_t number = label->int64_list().value(0);
  if (number < first_label || number - first_label >= labels) {
    throw UserError(
        fmt::format("{}: label {}, expected {} to {}", where, number, first_label, first_label + labels - 1));
  }
  Sample sample;
  sample.label = number - first_label;
  // Protobuf says what the image is, not where: the bytes lie in the record as they are.
  sample.offset = record.offset + place_of(*encoded, record.bytes);
  sample.length = std::ssize(*encoded);
  if (const std::string* name = text_of(example, kFileName); name != nullptr && !name->empty()) {
    check_key(where, *name);
    sample.key = *name;
  } else {
    sample.key = fmt::format("record-{}", record.offset);
  }
  return sample;
}

}  // namespace

SampleIndex index_example_records(const std::vector<fs::path>& shards, int64_t labels, int64_t first_label) {
  SampleIndex index;
  index.shards = shards;
  index.labels = labels;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    tfrecord::RecordReader reader(shards[shard], kMostRecordBytes);
    while (const auto record = reader.next()) {
      const std::string where = fmt::format("{}: record at byte {}", shards[shard].string(), record->offset);
      Sample sample = sample_of(*record, labels, first_label, where);
      sample.shard = static_cast<int32_t>(shard);
      index.samples.push_back(std::move(sample));
    }
    index.checked += reader.checked();
  }
  if (index.samples.empty()) throw UserError("the record files hold no records");
  return index;
}

}  // namespace mlbench::image
