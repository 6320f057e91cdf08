// Streaming DiLoCo: steps computed by hand, several outer rounds beside NumPy, and what it shares with local steps.

#include "mlbench/optim/exchange/streaming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/qsgd.h"
#include "mlbench/optim/exchange/steps_test.h"

namespace mlbench::optim {
namespace {

using ::testing::ElementsAre;

spec::OptimizerSpec streaming(Json options) {
  options["rule"] = options.value("rule", "sgd");
  options["compression"] = options.value("compression", "none");
  return named("streaming_diloco", options);
}

// One fragment, sent behind every third step and used one step later. Ranks go by 1 and 2 and differ from 0 by 3 and 6:
// d = 4.5. Behind the fourth step x = -4.5, and y = -4, -8 becomes its mean with x. The next d is the mean of
// x - y = -4.5 + 6.25, -4.5 + 10.25.
TEST(Streaming, StepsOfADelayedFragmentComputedByHand) {
  const Json options = {{"every", 3}, {"fragments", 1}, {"delay", 1}, {"mixing", 0.5}};
  const auto weights = weights_behind_steps(streaming(options), 2, 7);
  EXPECT_THAT(weights[0], ElementsAre(-1, -2, -3, -4.25, -5.25, -6.25, -7.75)) << "x = -4.5 - 3.75, y = -7.25";
  EXPECT_THAT(weights[1], ElementsAre(-2, -4, -6, -6.25, -8.25, -10.25, -10.25)) << "x = -8.25, y = -12.25";
}

// Two tensors of one element, two fragments: the first is sent behind steps 1, 3, ..., the second behind 2, 4, ...
TEST(Streaming, FragmentsTakeTurns) {
  const FlatLayout layout = layout_with_buffer({1, 1});
  const Json options = {{"every", 2}, {"fragments", 2}, {"delay", 0}, {"mixing", 0}};
  on_ranks(2, [&](int rank, comm::Communicator& comm) {
    const auto optimizer = make_optimizer(streaming(options), layout, comm);
    EXPECT_EQ(optimizer->effective()["buckets"], 2);
    FlatTensors tensors{at::zeros({layout.parameter_elements}), at::zeros({layout.parameter_elements})};
    std::vector<float> first, second;
    for (int step = 0; step < 4; ++step) {
      tensors.gradients.fill_(0.5 * (rank + 1));
      optimizer->begin({step, 1, 0.5}, tensors);
      EXPECT_EQ(optimizer->finish(), 0U);
      optimizer->step(tensors, 1);
      EXPECT_EQ(optimizer->after_update(tensors), sizeof(float)) << "one fragment of one element";
      first.push_back(tensors.parameters[0].item<float>());
      second.push_back(tensors.parameters[16].item<float>());
    }
    EXPECT_EQ(first[0], -1.5);
    EXPECT_EQ(first[1], rank == 0 ? -2.5 : -3.5);
    EXPECT_EQ(first[2], -4.5);
    EXPECT_EQ(second[0], rank == 0 ? -1 : -2);
    EXPECT_EQ(second[1], -3);
    EXPECT_EQ(second[3], -6);
  });
}

const FlatLayout kStreamed = layout_with_buffer({3, 24, 5, 40, 7});

at::Tensor drawn_gradient(int rank, int step) {
  RandomSequence random(static_cast<uint64_t>(1000 * rank + step));
  at::Tensor gradient = at::zeros({kStreamed.parameter_elements});
  for (const FlatRange& range : kStreamed.ranges) {
    if (!range.trainable) continue;
    for (int64_t i = 0; i < range.count; ++i) gradient[range.offset + i] = random.normal();
  }
  return gradient;
}

// The parameters of each rank behind each of `steps`, from zeros: [step][rank].
using StreamedCourse = std::vector<std::vector<at::Tensor>>;
StreamedCourse streamed_course(const spec::OptimizerSpec& spec, int size, int steps,
                               const std::vector<int>& resumed_at = {}) {
  StreamedCourse course(static_cast<size_t>(steps), std::vector<at::Tensor>(static_cast<size_t>(size)));
  on_ranks(size, [&](int rank, comm::Communicator& comm) {
    auto optimizer = make_optimizer(spec, kStreamed, comm);
    FlatTensors tensors{at::zeros({kStreamed.parameter_elements}), at::zeros({kStreamed.parameter_elements})};
    for (int step = 0; step < steps; ++step) {
      if (std::ranges::count(resumed_at, step) > 0) {
        NamedState shared, own;
        optimizer->export_state(shared);
        optimizer->export_own_state(own);
        optimizer = make_optimizer(spec, kStreamed, comm);
        optimizer->import_state(shared);
        optimizer->import_own_state(own);
      }
      step_with(*optimizer, tensors, drawn_gradient(rank, step) / size, {step, 0.1, 1.0 / size});
      course[static_cast<size_t>(step)][static_cast<size_t>(rank)] = tensors.parameters.clone();
    }
  });
  return course;
}

void expect_same_bits(const StreamedCourse& one, const StreamedCourse& other) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t step = 0; step < one.size(); ++step) {
    for (size_t rank = 0; rank < one[step].size(); ++rank) {
      EXPECT_TRUE(same_bits(one[step][rank], other[step][rank])) << "step " << step << ", rank " << rank;
    }
  }
}

const Json kOuter = {{"every", 4}, {"outer_lr", 0.7}, {"outer_momentum", 0.9}, {"outer_nesterov", true}};

Json with(Json options, const Json& more) {
  options.update(more);
  return options;
}

TEST(Streaming, OneFragmentWithoutDelayAndMixingIsDiLoCoToTheBit) {
  for (const char* rule : {"sgd", "adamw"}) {
    for (const int size : {1, 2, 3}) {
      const Json outer = with(kOuter, {{"rule", rule}});
      const Json options = with(outer, {{"fragments", 1}, {"delay", 0}, {"mixing", 0}});
      expect_same_bits(streamed_course(streaming(options), size, 13),
                       streamed_course(named("diloco", outer), size, 13));
    }
  }
}

TEST(Streaming, OverlapGivesTheSameBits) {
  for (const char* coder : {"none", "qsgd", "top_k"}) {
    Json options = with(kOuter, {{"compression", coder}, {"fragments", 3}, {"delay", 2}, {"mixing", 0.5}});
    const StreamedCourse expected = streamed_course(streaming(options), 3, 17);
    options["overlap"] = true;
    expect_same_bits(streamed_course(streaming(options), 3, 17), expected);
  }
}

// Whatever is under way: a fragment that was sent and not summed, one that was summed and not used, a coder's memory.
TEST(Streaming, ResumesIdenticallyFromEveryPhase) {
  for (const int64_t delay : {0, 1, 3}) {
    for (const bool overlap : {false, true}) {
      if (overlap && delay == 0) continue;
      for (const char* coder : {"none", "top_k"}) {
        const spec::OptimizerSpec spec = streaming(
            with(kOuter,
                 {{"compression", coder}, {"fragments", 3}, {"delay", delay}, {"mixing", 0.25}, {"overlap", overlap}}));
        const StreamedCourse expected = streamed_course(spec, 2, 14);
        expect_same_bits(streamed_course(spec, 2, 14, {1, 3, 4, 5, 8, 11}), expected);
        expect_same_bits(streamed_course(spec, 2, 14, {2, 6, 7, 9, 10, 12, 13}), expected);
      }
    }
  }
}

// Every fragment goes once in `every` steps, with the bytes that its coder says: in the step that it is of without a
// delay, and in the next one with it.
TEST(Streaming, BytesAreThoseOfTheFragmentsCoder) {
  struct Case {
    const char* coder;
    std::vector<uint64_t> of_fragment;
  };
  // Fragments of 3 + 24, 5 + 40 and 7 elements. qsgd: 4 bytes, and half a byte per element, of each tensor.
  const Case cases[] = {{"none", {27 * 4, 45 * 4, 7 * 4}}, {"qsgd", {6 + 16, 7 + 24, 8}}};
  for (const Case& test : cases) {
    for (const int64_t delay : {0, 1, 2}) {
      const Json options = {{"compression", test.coder}, {"every", 6}, {"fragments", 3}, {"delay", delay}};
      on_ranks(2, [&](int rank, comm::Communicator& comm) {
        const auto optimizer = make_optimizer(streaming(options), kStreamed, comm);
        FlatTensors tensors{at::zeros({kStreamed.parameter_elements}), at::zeros({kStreamed.parameter_elements})};
        for (int step = 0; step < 14; ++step) {
          tensors.gradients.copy_(drawn_gradient(rank, step));
          optimizer->begin({step, 0.1, 0.5}, tensors);
          const uint64_t before = optimizer->finish();
          optimizer->step(tensors, 0.1);
          const uint64_t behind = optimizer->after_update(tensors);
          const int sent = delay == 0 ? step + 1 : step;  // behind the local steps 2, 4, 6, 8, ...
          const uint64_t bytes =
              sent > 0 && sent % 2 == 0 ? test.of_fragment[static_cast<size_t>(sent / 2 - 1) % 3] : 0;
          EXPECT_EQ(before, delay == 0 ? 0 : bytes) << test.coder << ", delay " << delay << ", step " << step;
          EXPECT_EQ(behind, delay == 0 ? bytes : 0) << test.coder << ", delay " << delay << ", step " << step;
        }
      });
    }
  }
}

TEST(Streaming, CutsTensorsIntoFragmentsOfAboutOneSize) {
  const auto fragments = [](const std::vector<int64_t>& counts, int64_t most) {
    const FlatLayout layout = layout_with_buffer(counts);
    const auto comm = one_rank();
    const spec::OptimizerSpec spec = streaming({{"fragments", most}});
    return make_optimizer(spec, layout, *comm)->effective()["buckets"].get<int64_t>();
  };
  EXPECT_EQ(fragments({1}, 4), 1) << "no more than tensors";
  EXPECT_EQ(fragments({5, 5, 5}, 4), 3);
  EXPECT_EQ(fragments({5, 5, 5, 5, 5, 5, 5, 5}, 4), 4);
  EXPECT_EQ(fragments({1, 1, 1, 1000}, 4), 4);
  EXPECT_EQ(fragments({1000, 1, 1}, 2), 2);
}

TEST(Streaming, RefusesWhatCannotBe) {
  expect_refusal(streaming({{"every", 3}}), "fragments is 4 with every 3");
  expect_refusal(streaming({{"every", 4}, {"delay", 4}}), "delay is 4 with every 4; expected a delay below every");
  expect_refusal(streaming({{"delay", 0}, {"overlap", true}}), "overlap is true with delay 0");
  expect_refusal(streaming({{"outer_nesterov", true}}), "outer_nesterov needs an outer_momentum above 0");
}

// In separate memory, here another part of the host's: the same bits.
TEST(Streaming, WorksInSeparateMemory) {
  const auto run = [](bool separate, bool coded) {
    std::vector<at::Tensor> results(2);
    on_ranks(2, [&](int rank, comm::Communicator& comm) {
      SeparateMemory memory;
      const compress::MakeCoder make = [&](const compress::CoderContext& context) {
        std::unique_ptr<compress::GradientCoder> coder;
        if (coded) {
          coder = std::make_unique<compress::QsgdCoder>(compress::QsgdOptions(), context);
        } else {
          coder = std::make_unique<compress::IdentityCoder>(context.layout);
        }
        return coder;
      };
      const auto whole = make({kStreamed, 42, rank, 2});
      StreamingExchange exchange({.comm = comm,
                                  .coder = *whole,
                                  .layout = kStreamed,
                                  .memory = separate ? &memory : nullptr,
                                  .make_coder = make},
                                 {.every = 4, .fragments = 3, .delay = 2, .outer = {0.7, 0.9, true}});
      FlatTensors tensors{at::zeros({kStreamed.parameter_elements}), at::zeros({kStreamed.parameter_elements})};
      for (int step = 0; step < 11; ++step) {
        exchange.begin({step, 0.1, 0.5}, tensors);
        tensors.gradients.copy_(drawn_gradient(rank, step));
        exchange.finish();
        tensors.parameters.sub_(tensors.gradients, 0.1);
        exchange.after_update(tensors);
      }
      EXPECT_EQ(memory.flat_bytes > 0, separate);
      results[static_cast<size_t>(rank)] = tensors.parameters;
    });
    return results;
  };
  for (const bool coded : {false, true}) {
    const auto expected = run(false, coded), results = run(true, coded);
    for (size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(same_bits(results[rank], expected[rank]));
  }
}

}  // namespace
}  // namespace mlbench::optim
