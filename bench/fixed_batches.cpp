#include "fixed_batches.h"

#include <string>
#include <utility>

#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"

namespace mlbench {

namespace {

constexpr int64_t kPad = 0, kBegin = 2, kEnd = 3, kFirstWord = 4;
constexpr int64_t kSmall = 7919, kLarge = 104729;  // primes
constexpr int64_t kShortest = 20, kLongest = 50;

void add_integers(FixedBatch& batch, const std::string& name, std::vector<int64_t> shape, std::vector<int64_t> values) {
  const std::vector<int64_t>& kept = batch.integers.emplace_back(std::move(values));
  batch.view.tensors.push_back({name, std::move(shape), const_view_of(std::span<const int64_t>(kept)), {}});
}

// Sentence `number` of `count`, from kShortest to kLongest.
int64_t length_of(int64_t number, int64_t count) {
  return count == 1 ? kLongest : kShortest + (kLongest - kShortest) * number / (count - 1);
}

}  // namespace

FixedBatch random_images(const models::ModelDescription& model, const spec::TaskSpec&, int64_t batch) {
  RandomSequence random(1);
  FixedBatch made;
  std::vector<int64_t> shape = model.input_shape;
  shape.insert(shape.begin(), batch);
  made.features.resize(static_cast<size_t>(volume_of(shape)));
  for (float& value : made.features) value = static_cast<float>(random.uniform());
  made.view.samples = made.view.weight = batch;
  made.view.tensors.push_back({"features", shape, const_view_of(std::span<const float>(made.features)), {}});
  std::vector<int64_t> labels(static_cast<size_t>(batch));
  for (int64_t& label : labels) label = static_cast<int64_t>(random.below(10));
  add_integers(made, "labels", {batch}, std::move(labels));
  return made;
}

FixedBatch columns_of_text(const models::ModelDescription&, const spec::TaskSpec& task, int64_t batch) {
  const int64_t positions = task.data.bptt, vocabulary = task.data.classes;
  const auto token = [&](int64_t t, int64_t c) { return (kSmall * t + kLarge * c) % vocabulary; };
  std::vector<int64_t> tokens, targets;
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t c = 0; c < batch; ++c) {
      tokens.push_back(token(t, c));
      targets.push_back(token(t + 1, c));
    }
  }
  FixedBatch made;
  made.view.samples = batch;
  made.view.weight = positions * batch;
  add_integers(made, "tokens", {positions, batch}, std::move(tokens));
  add_integers(made, "targets", {positions, batch}, std::move(targets));
  return made;
}

FixedBatch pairs_of_sentences(const models::ModelDescription&, const spec::TaskSpec& task, int64_t batch) {
  const int64_t words = task.data.classes - kFirstWord;
  FixedBatch made;
  std::vector<int64_t> source_lengths, target_lengths;
  for (int64_t s = 0; s < batch; ++s) {
    source_lengths.push_back(length_of(s, batch));
    target_lengths.push_back(length_of(batch - 1 - s, batch));
    made.view.weight += target_lengths.back();
  }
  made.view.samples = batch;
  const size_t size = static_cast<size_t>(batch * kLongest);
  std::vector<int64_t> source(size, kPad), target_in(size, kPad), target_out(size, kPad);
  for (int64_t s = 0; s < batch; ++s) {
    const auto row = static_cast<size_t>(s * kLongest), number = static_cast<size_t>(s);
    for (int64_t t = 0; t < source_lengths[number]; ++t) {
      const bool last = t + 1 == source_lengths[number];
      source[row + static_cast<size_t>(t)] = last ? kEnd : kFirstWord + (kSmall * t + kLarge * s) % words;
    }
    target_in[row] = kBegin;
    for (int64_t t = 0; t < target_lengths[number]; ++t) {
      const auto place = row + static_cast<size_t>(t);
      const bool last = t + 1 == target_lengths[number];
      target_out[place] = last ? kEnd : kFirstWord + (kLarge * t + kSmall * s) % words;
      if (!last) target_in[place + 1] = target_out[place];
    }
  }
  add_integers(made, "source", {batch, kLongest}, std::move(source));
  add_integers(made, "target_in", {batch, kLongest}, std::move(target_in));
  add_integers(made, "target_out", {batch, kLongest}, std::move(target_out));
  add_integers(made, "source_lengths", {batch}, std::move(source_lengths));
  add_integers(made, "target_lengths", {batch}, std::move(target_lengths));
  return made;
}

}  // namespace mlbench
