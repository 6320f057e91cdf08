#include "mlbench/framework/native/tape/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/native/library.h"

namespace mlbench::framework::native_framework {

namespace {

std::unique_ptr<Tape> build_tape_for(const NetworkOptions& options, InstructionSet set) {
  if (!options.bfloat16) return build_tape<float>(options, set);
  require_bfloat16();
  return build_tape<BFloat16>(options, set);
}

// Every other segment takes the chunks backwards, to begin with what the segment before left in the cache.
template <typename Body>
void for_chunks(const std::vector<Chunk>& chunks, bool backwards, const Body& body) {
  for (size_t i = 0; i < chunks.size(); ++i) body(chunks[backwards ? chunks.size() - 1 - i : i]);
}

}  // namespace

Network::Network(const NetworkOptions& options)
    : set_(instruction_sets().back()),
      outputs_(options.model.outputs),
      tape_(build_tape_for(options, set_)),
      plan_(*tape_, options.threads),
      profile_(*tape_) {
  pass_.threads = options.threads;
}

void Network::forward(const BatchView& batch, bool training, int64_t step, int64_t micro_batch) {
  const BatchTensor& features = batch.at("features");
  MLBENCH_CHECK(features.values.dtype == DType::kFloat32 &&
                    (features.dense() ? features.values.count == batch.samples * features.row_volume()
                                      : static_cast<int64_t>(features.rows.size()) == batch.samples) &&
                    features.row_volume() == tape_->input->shape.volume(),
                fmt::format("{} samples of {} x {}, {} values, {} rows", batch.samples, features.row_volume(),
                            name_of(features.values.dtype), features.values.count, features.rows.size()));
  const SingleThreaded single;
  plan_.settle(batch.samples);
  tape_->source = {static_cast<const float*>(features.values.data), features.dense() ? nullptr : features.rows.data(),
                   features.dense() && tape_->reads_in_place};
  // No operation writes to the input.
  tape_->input->data.whole = tape_->source.in_place
                                 ? reinterpret_cast<std::byte*>(const_cast<float*>(tape_->source.features))
                                 : plan_.stored_input();
  pass_.training = training;
  pass_.step = step;
  pass_.micro_batch = micro_batch;
  pass_.samples = batch.samples;
  const std::vector<Segment>& segments = plan_.segments();
  run_team(pass_.threads, [&](TeamMember& member) {
    member.guard([&] {
      for (const auto& operation : tape_->operations) operation->pack(member.thread(), pass_);
    });
    member.meet();
    for (size_t i = 0; i < segments.size(); ++i) {
      note_begin(i, member);
      member.guard([&] { run_forward(i, member.thread()); });
      member.meet();
      member.guard([&] {
        for (Operation* operation : segments[i].operations) operation->finish_forward(member.thread(), pass_);
      });
      note_end(i, member);
    }
  });
  tell_times(LayerPass::kForward);
}

std::span<const float> Network::outputs() const {
  return {tape_->result->data.at<float>({0, 0, pass_.samples}), static_cast<size_t>(pass_.samples * outputs_)};
}

void Network::backward(std::span<const float> output_gradient, bool accumulate, const Ready& ready) {
  MLBENCH_CHECK(pass_.training && output_gradient.size() == outputs().size(), "backward follows forward(training)");
  const SingleThreaded single;
  std::ranges::copy(output_gradient, tape_->result->gradient.at<float>({0, 0, pass_.samples}));
  pass_.accumulate = accumulate;
  const std::vector<Segment>& segments = plan_.segments();
  if (!ready) {
    run_team(pass_.threads, [&](TeamMember& member) {
      for (size_t i = segments.size(); i-- > 0;) backward_segment(i, member);
    });
    return tell_times(LayerPass::kBackward);
  }
  for (size_t i = segments.size(); i-- > 0;) {
    run_team(pass_.threads, [&](TeamMember& member) { backward_segment(i, member); });
    const std::vector<Operation*>& operations = segments[i].operations;
    for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
      for (const Parameter& parameter : (*operation)->parameters) ready(parameter.offset, parameter.count);
    }
  }
  tell_times(LayerPass::kBackward);
}

// Runs one segment backward. The segment's gradients are complete when all members have returned.
void Network::backward_segment(size_t number, TeamMember& member) {
  note_begin(number, member);
  member.guard([&] { run_backward(number, member.thread()); });
  member.meet();
  member.guard([&] {
    for (Operation* operation : plan_.segments()[number].operations) {
      operation->finish_backward(member.thread(), pass_);
    }
  });
  note_end(number, member);
}

void Network::run_forward(size_t number, int thread) {
  const Segment& segment = plan_.segments()[number];
  const auto one = [&](Operation* operation, const Chunk& chunk) {
    profile_.timed(pass_, thread, &OperationCost::forward_s, operation, [&] { operation->forward(chunk, pass_); });
  };
  if (segment.by_batch) return one(segment.operations.front(), {thread, 0, pass_.samples});
  for_chunks(plan_.chunks(number, thread), number % 2 == 1, [&](const Chunk& chunk) {
    for (Operation* operation : segment.operations) one(operation, chunk);
  });
}

void Network::run_backward(size_t number, int thread) {
  const Segment& segment = plan_.segments()[number];
  const auto timed = [&](const Operation* operation, const auto& work) {
    profile_.timed(pass_, thread, &OperationCost::backward_s, operation, work);
  };
  const auto one = [&](Operation* operation, const Chunk& chunk) {
    timed(operation, [&] {
      const Value* y = operation->output;
      if (y != nullptr && y->alias != nullptr && y->writers > 0 && !operation->merges_alias)
        tape_->add_alias(*y, chunk);
      operation->backward(chunk, pass_);
    });
  };
  if (segment.by_batch) return one(segment.operations.front(), {thread, 0, pass_.samples});
  for_chunks(plan_.chunks(number, thread), number % 2 == 0, [&](const Chunk& chunk) {
    for (Operation* operation : segment.operations) {
      if (operation->recompute) timed(operation, [&] { operation->forward(chunk, pass_); });
    }
    for (auto operation = segment.operations.rbegin(); operation != segment.operations.rend(); ++operation) {
      one(*operation, chunk);
    }
  });
}

void Network::on_layer(const Clock& clock, Framework::LayerDone done) {
  clock_ = done ? &clock : nullptr;
  layer_done_ = std::move(done);
  times_.clear();
  for (const Segment& segment : plan_.segments()) {
    std::string name;
    for (const Operation* operation : segment.operations) name += (name.empty() ? "" : "+") + operation->name;
    times_.push_back({std::move(name)});
  }
}

void Network::note_begin(size_t segment, const TeamMember& member) {
  if (clock_ != nullptr && pass_.training && member.thread() == 0) times_[segment].begin = clock_->now();
}

void Network::note_end(size_t segment, const TeamMember& member) {
  if (clock_ != nullptr && pass_.training && member.thread() == 0) times_[segment].end = clock_->now();
}

void Network::tell_times(LayerPass pass) {
  if (clock_ == nullptr || !pass_.training) return;
  const auto tell = [&](const SegmentTime& time) { layer_done_({time.name, pass, time.begin, time.end}); };
  if (pass == LayerPass::kForward) {
    std::ranges::for_each(times_, tell);
  } else {
    std::for_each(times_.rbegin(), times_.rend(), tell);
  }
}

std::vector<OperationCost> Network::costs() {
  const SingleThreaded single;
  return profile_.costs();
}

}  // namespace mlbench::framework::native_framework
