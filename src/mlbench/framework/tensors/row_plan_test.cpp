#include "mlbench/framework/tensors/row_plan.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "mlbench/framework/tensors/token_inputs.h"
#include "mlbench/framework/token_batch_test.h"

namespace mlbench::framework {
namespace {

using ::testing::ElementsAre;

at::Tensor integers(const std::vector<int64_t>& values) { return at::tensor(values); }

TEST(RowPlan, LeavesPaddingOut) {
  const RowPlan by_sequence({2, 0, 3}, 4, RowPlan::Order::kBySequence);
  EXPECT_THAT(by_sequence.sequence, ElementsAre(0, 0, 2, 2, 2));
  EXPECT_THAT(by_sequence.position, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(by_sequence.first, ElementsAre(0, 2, 2, 5));
  const RowPlan by_position({2, 0, 3}, 4, RowPlan::Order::kByPosition);
  EXPECT_THAT(by_position.sequence, ElementsAre(2, 0, 2, 0, 2));
  EXPECT_THAT(by_position.position, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(by_position.lstm_rows().sequences, ElementsAre(2, 2, 1));
  for (const RowPlan* plan : {&by_sequence, &by_position}) {
    EXPECT_FALSE(plan->whole());
    for (int64_t row = 0; row < plan->rows(); ++row) {
      const auto i = static_cast<size_t>(row);
      EXPECT_EQ(plan->row_of(plan->sequence[i], plan->position[i]), row);
    }
    const at::Tensor rows = at::randn({5, 2}), sequences = padded(rows, *plan), positions = padded(rows, *plan, true);
    EXPECT_EQ(sequences.sizes(), at::IntArrayRef({3, 4, 2}));
    EXPECT_TRUE(at::equal(sequences[2][1], rows[plan->row_of(2, 1)]));
    EXPECT_TRUE(at::equal(sequences[0][2], at::zeros({2}))) << "padding";
    EXPECT_TRUE(at::equal(positions, sequences.transpose(0, 1)));
    EXPECT_TRUE(at::equal(rows_of_padded(sequences, *plan), rows));
    EXPECT_TRUE(at::equal(rows_of_padded(positions, *plan, true), rows));
    const at::Tensor turned = turned_rows(*plan);
    EXPECT_EQ(turned[plan->row_of(2, 0)].item<int64_t>(), plan->row_of(2, 2));
    EXPECT_TRUE(at::equal(turned.index_select(0, turned), at::arange(5)));
  }
  const at::Tensor value = at::arange(5);
  EXPECT_TRUE(at::equal(rearranged(value, by_sequence, by_position), integers({2, 0, 3, 1, 4})));
  const auto shared = std::make_shared<const RowPlan>(by_position);
  const GraphValue sequences_first{value, shared, false}, positions_first{value, shared, true};
  EXPECT_TRUE(at::equal(sequences_first.places(), integers({8, 0, 9, 1, 10})));
  EXPECT_TRUE(at::equal(positions_first.places(), integers({2, 0, 5, 3, 8})));
  EXPECT_TRUE(at::equal(positions_first.of_rows(at::arange(12).view({4, 3})), positions_first.places()));
}

TEST(RowPlan, WithoutPaddingIsThePaddedFormItself) {
  for (const bool positions_first : {false, true}) {
    const RowPlan plan({3, 3}, 3, positions_first ? RowPlan::Order::kByPosition : RowPlan::Order::kBySequence);
    EXPECT_TRUE(plan.whole());
    EXPECT_TRUE(plan.is_padded(positions_first));
    EXPECT_FALSE(plan.is_padded(!positions_first));
    const at::Tensor rows = at::randn({6, 2});
    EXPECT_EQ(padded(rows, plan, positions_first).data_ptr(), rows.data_ptr());
    const at::Tensor other = padded(rows, plan, !positions_first);
    EXPECT_TRUE(at::equal(other, padded(rows, plan, positions_first).transpose(0, 1)));
    EXPECT_TRUE(at::equal(rows_of_padded(other, plan, !positions_first), rows));
  }
}

TEST(TokenInputs, HaveNoRowsOfPadding) {
  models::ModelDescription model;
  model.inputs = {"source_lengths", "source", "target_in"};
  model.decoder_input = "target_in";
  model.loss.targets = "target_out";
  model.loss.ignored = 0;
  model.outputs = 10;
  const TokenBatch batch = translation_batch({{{5, 3}, {6, 7, 8}}, {{9, 5, 4, 3}, {6}}});
  const auto values = token_inputs(model, batch.view());
  ASSERT_EQ(values.size(), 3U);
  EXPECT_TRUE(at::equal(values.at("source_lengths").data, integers({2, 4})));
  EXPECT_TRUE(at::equal(values.at("source").data, integers({5, 3, 9, 5, 4, 3})));
  EXPECT_TRUE(at::equal(values.at("target_in").data, integers({2, 6, 7, 8, 2, 6})));
  EXPECT_THAT(values.at("target_in").plan->lengths, ElementsAre(4, 2)) << "up to the last target that counts";
  model.outputs = 9;
  EXPECT_ANY_THROW(token_inputs(model, batch.view())) << "a token outside of the vocabulary";
}

TEST(TokenInputs, OfStreamsAreWholeColumns) {
  models::ModelDescription model;
  model.inputs = {"tokens"};
  model.outputs = 10;
  const TokenBatch batch = language_batch(10, 3, 2);
  const GraphValue tokens = token_inputs(model, batch.view()).at("tokens");
  EXPECT_TRUE(tokens.positions_first);
  EXPECT_TRUE(tokens.plan->is_padded(true));
  EXPECT_TRUE(at::equal(tokens.data, integers(batch.tensors[0].values)));
}

}  // namespace
}  // namespace mlbench::framework
