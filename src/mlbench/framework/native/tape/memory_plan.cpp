#include "mlbench/framework/native/tape/memory_plan.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>

#include "mlbench/base/errors.h"

namespace mlbench::framework::native_framework {

namespace {

// Bytes of a chunk's largest value. Several such values fit into a core's second-level cache.
constexpr int64_t kChunkBytes = 256 * 1024;
constexpr int64_t kLine = 64;

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Bytes per sample of the largest value that a segment's operations touch.
int64_t largest_value_of(const Segment& segment) {
  int64_t largest = 1;
  for (const Operation* operation : segment.operations) {
    for (const Value* value : operation->inputs) largest = std::max(largest, value->data.bytes_per_sample);
    if (operation->output != nullptr) largest = std::max(largest, operation->output->data.bytes_per_sample);
  }
  return largest;
}

}  // namespace

HugePages::HugePages(int64_t bytes) {
  constexpr int64_t kHugePage = 2 << 20;
  const auto size = static_cast<size_t>(rounded_up(std::max<int64_t>(bytes, 1), kHugePage));
  bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePage, size)));
  if (!bytes_) throw std::bad_alloc();
  madvise(bytes_.get(), size, MADV_HUGEPAGE);  // advice: an error changes nothing
  std::fill_n(bytes_.get(), size, std::byte{0});
}

void HugePages::Free::operator()(std::byte* bytes) const { std::free(bytes); }

// --- for any size of batch

MemoryPlan::MemoryPlan(Tape& tape, int threads) : tape_(tape), threads_(threads) {
  cut_into_segments();
  choose_what_is_kept();
  count_writers();
  keep_gradients();
  share_places();
  for (Segment& segment : segments_) {
    segment.chunk = std::max<int64_t>(1, kChunkBytes / largest_value_of(segment));
  }
}

void MemoryPlan::cut_into_segments() {
  for (const auto& operation : tape_.operations) {
    const bool alone = operation->by_batch || (!segments_.empty() && segments_.back().by_batch);
    const bool waits = operation->after != nullptr && segment_of(operation->after) + 1 == segments_.size();
    if (segments_.empty() || alone || waits) segments_.emplace_back();
    Segment& segment = segments_.back();
    segment.by_batch = operation->by_batch;
    segment.operations.push_back(operation.get());
    segment_of_[operation.get()] = segments_.size() - 1;
  }
}

bool MemoryPlan::is_stored(const Buffer& buffer) const {
  return std::ranges::find(stored_, &buffer, &Stored::buffer) != stored_.end();
}

void MemoryPlan::keep(Value& value) {
  if (is_stored(value.data)) return;
  Operation* producer = value.producer;
  const size_t home = segment_of(producer);
  const bool local =
      std::ranges::all_of(value.consumers, [&](const Operation* consumer) { return segment_of(consumer) == home; });
  if (!local || !producer->cheap) {
    stored_.push_back({&value.data, home, segments_.size()});
    return;
  }
  if (producer->recompute) return;
  producer->recompute = true;
  for (Value* input : producer->inputs) keep(*input);
}

void MemoryPlan::choose_what_is_kept() {
  stored_.push_back({&tape_.result->data, segment_of(tape_.result->producer), segments_.size()});
  for (const auto& operation : tape_.operations) {
    for (Value* value : operation->keeps) keep(*value);
    for (Buffer* buffer : operation->state) stored_.push_back({buffer, segment_of(operation.get()), segments_.size()});
  }
  for (Value& value : tape_.values) {
    const size_t home = segment_of(value.producer);
    const bool crosses =
        std::ranges::any_of(value.consumers, [&](const Operation* consumer) { return segment_of(consumer) != home; });
    if (crosses) keep(value);
  }
}

void MemoryPlan::count_writers() {
  for (auto operation = tape_.operations.rbegin(); operation != tape_.operations.rend(); ++operation) {
    for (Value* value : (*operation)->writes_gradient_of) (*operation)->adds.push_back(value->writers++ > 0);
  }
  ++tape_.result->writers;  // the loss
  for (Value& value : tape_.values) {
    // Normalise stores its merged and masked gradient in the value's own.
    value.owns_gradient = value.writers > 0 || (value.alias != nullptr && value.producer->merges_alias &&
                                                std::ranges::count(value.producer->keeps, &value) > 0);
    MLBENCH_CHECK(!value.wants_gradient || value.owns_gradient || value.alias != nullptr,
                  "a value without gradient: " + value.producer->name);
  }
}

void MemoryPlan::keep_gradients() {
  std::map<const Buffer*, std::set<size_t>> used;  // the segments that use each buffer
  for (const Value& value : tape_.values) {
    if (!value.wants_gradient) continue;
    const size_t home = segment_of(value.producer);
    used[&value.final_gradient()].insert(home);
    if (value.owns_gradient) used[&value.gradient].insert(home);
    if (value.alias != nullptr) used[&value.alias->final_gradient()].insert(home);
  }
  for (const auto& operation : tape_.operations) {
    const size_t at = segment_of(operation.get());
    for (const Value* value : operation->writes_gradient_of) used[&value->gradient].insert(at);
    for (const Value* value : operation->reads_gradient_of) used[&value->final_gradient()].insert(at);
  }
  used[&tape_.result->gradient].insert(segments_.size());
  for (Value& value : tape_.values) {
    const auto found = used.find(&value.gradient);
    if (!value.owns_gradient || found == used.end() || found->second.size() < 2) continue;
    stored_.push_back({&value.gradient, *found->second.begin(), *found->second.rbegin()});
  }
}

// Whether a buffer holds data, which are in use from their segment to the end. Gradients are in use between two
// segments of the backward pass, during which all data are.
bool MemoryPlan::is_data(const Stored& stored) const {
  return stored.last == segments_.size() && stored.buffer != &tape_.result->gradient;
}

// Places buffers by first fit. Buffers that are never in use at once may share their place.
void MemoryPlan::share_places() {
  std::vector<const Stored*> placed;
  for (Stored& stored : stored_) {
    const int64_t bytes = rounded_up(stored.buffer->bytes_per_sample, kLine);
    const auto collides = [&](const Stored& other) {
      const bool apart = stored.offset + bytes <= other.offset ||
                         other.offset + rounded_up(other.buffer->bytes_per_sample, kLine) <= stored.offset;
      const bool never_at_once =
          !is_data(stored) && !is_data(other) && (stored.last < other.first || other.last < stored.first);
      return !apart && !never_at_once;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (const Stored* other : placed) {
        if (!collides(*other)) continue;
        stored.offset = other->offset + rounded_up(other->buffer->bytes_per_sample, kLine);
        moved = true;
      }
    }
    placed.push_back(&stored);
    stored_bytes_ = std::max(stored_bytes_, stored.offset + bytes);
  }
}

// --- for one size of batch

void MemoryPlan::settle(int64_t samples) {
  if (samples == settled_) return;
  if (samples > capacity_) {
    memory_ = HugePages();
    memory_ = HugePages(stored_bytes_ * samples);
    capacity_ = samples;
  }
  for (const Stored& stored : stored_) stored.buffer->whole = memory_.get() + stored.offset * samples;
  stored_input_ = is_stored(tape_.input->data) ? tape_.input->data.whole : nullptr;

  chunks_.clear();
  std::vector<Temporary> temporaries;
  int64_t scratch_bytes = 0;
  for (const Segment& segment : segments_) {
    std::set<int64_t> counts;
    for (const std::vector<Chunk>& chunks : chunks_.emplace_back(share_out(segment, samples))) {
      for (const Chunk& chunk : chunks) counts.insert(chunk.count);
    }
    if (segment.by_batch) counts = {samples};
    for (Operation* operation : segment.operations) operation->prepare({counts.begin(), counts.end()});
    const int64_t most_samples = counts.empty() ? 0 : *counts.rbegin();
    scratch_bytes = std::max(scratch_bytes, place_temporaries(segment, most_samples, temporaries));
  }
  scratch_.clear();
  for (int thread = 0; thread < threads_; ++thread) scratch_.emplace_back(scratch_bytes);
  for (const Temporary& temporary : temporaries) {
    temporary.buffer->scratch.clear();
    for (const HugePages& memory : scratch_) temporary.buffer->scratch.push_back(memory.get() + temporary.offset);
  }
  settled_ = samples;
}

std::vector<std::vector<Chunk>> MemoryPlan::share_out(const Segment& segment, int64_t samples) const {
  std::vector<std::vector<Chunk>> of_threads(static_cast<size_t>(threads_));
  for (int thread = 0; thread < threads_; ++thread) {
    const Share share = share_of(samples, thread, threads_);
    const int64_t chunks = (share.count() + segment.chunk - 1) / segment.chunk;
    for (int64_t i = 0; i < chunks; ++i) {
      const Share part = share_of(share.count(), static_cast<int>(i), static_cast<int>(chunks));
      of_threads[static_cast<size_t>(thread)].push_back({thread, share.begin + part.begin, part.count()});
    }
  }
  return of_threads;
}

// Places the buffers of a chunk one after the other, from the beginning in each segment. Returns the bytes that they
// take.
int64_t MemoryPlan::place_temporaries(const Segment& segment, int64_t most_samples,
                                      std::vector<Temporary>& temporaries) const {
  int64_t offset = 0;
  const auto place = [&](Buffer& buffer) {
    temporaries.push_back({&buffer, offset});
    offset += rounded_up(buffer.bytes_per_sample * most_samples, kLine);
  };
  for (const Operation* operation : segment.operations) {
    if (Value* y = operation->output; y != nullptr) {
      if (!is_stored(y->data)) place(y->data);
      if (y->owns_gradient && !is_stored(y->gradient)) place(y->gradient);
    }
    for (Buffer* buffer : operation->temporary) place(*buffer);
  }
  return offset;
}

}  // namespace mlbench::framework::native_framework
