#pragma once

// Which samples make global step s on rank r, in which micro-batches: pure, the same on all ranks, resumable at any
// step. An epoch sees each sample once, but for what a plan says that it leaves out; all ranks take equally many steps.
//
//   samples    a permutation of the training set, cut into global batches of batch_size * k (shard.h)
//   sentences  the same in global batches of N sentences; a rank's part is sorted by length and cut into micro-batches
//   tokens     sentences of similar length make units of at most so many tokens; a global batch is some of them, drawn
//   columns    the text in batch_size * k columns, read from top to bottom in pieces of drawn length

#include <cstdint>
#include <memory>
#include <vector>

namespace mlbench::data {

// One micro-batch: rows [begin, begin + count) of its StepPlan; of a text those are columns, of which it takes
// positions [first, first + positions).
struct Piece {
  int64_t begin = 0, count = 0;
  int64_t first = 0, positions = 0;
  bool continues = false;  // the columns' state goes on from the piece before
};

// One rank's part of one global step.
struct StepPlan {
  int64_t epoch = 0, step_in_epoch = 0;
  std::vector<int64_t> rows;   // numbers of records, or of columns
  std::vector<Piece> pieces;   // empty: this rank has nothing in this step
  int64_t global_samples = 0;  // of all ranks
  int64_t global_weight = 0;   // of all ranks: what their means are over (BatchView::weight)
  // What a micro-batch's weight is divided by for its share of the step's gradient: the ranks' exchange sums. What the
  // sum is divided by then.
  double divisor = 1, sum_divisor = 1;
  double relative_length = 1;  // of the step's sequences, for learning rates that follow it
};

// All of an epoch's order, made once. For any number of threads.
class EpochPlan {
 public:
  virtual ~EpochPlan() = default;
  // This rank's part of that step; keeps the memory of `plan`.
  virtual void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const = 0;
};

class BatchPlan {
 public:
  virtual ~BatchPlan() = default;

  virtual std::unique_ptr<const EpochPlan> epoch(int64_t number) const = 0;
  // Steps of all epochs before this one: the number of its first step.
  virtual int64_t first_step(int64_t epoch) const = 0;
  // The epoch that step `step` (from 0) is of.
  virtual int64_t epoch_of(int64_t step) const = 0;
  // Samples of all ranks in the first `steps` of an epoch: images, pairs of sentences, tokens of a text.
  virtual int64_t samples_in(int64_t epoch, int64_t steps) const = 0;
  virtual int64_t samples_per_epoch() const = 0;

  int64_t steps_in(int64_t epoch) const { return first_step(epoch + 1) - first_step(epoch); }
  // Those of the first epoch: what schedules reckon with. Where lengths are drawn, others differ a little.
  int64_t steps_per_epoch() const { return steps_in(0); }
  // Whether `steps` (> 0) steps end with an epoch.
  bool ends_epoch(int64_t steps) const { return first_step(epoch_of(steps)) == steps; }
  // Epochs that are `steps` steps, and the steps that are so many epochs, rounded up.
  double epochs_after(int64_t steps) const;
  int64_t steps_after(double epochs) const;
  int64_t samples_after(int64_t steps) const;
};

// Of plans whose epochs all have the same number of steps.
class EvenPlan : public BatchPlan {
 public:
  int64_t first_step(int64_t epoch) const final { return epoch * steps_; }
  int64_t epoch_of(int64_t step) const final { return step / steps_; }

 protected:
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  int64_t steps_ = 1;
};

enum class Divisor { kWeight, kWeightAfterSum, kLocalSamples };

struct PlanOptions {
  int64_t workers = 1;
  int64_t batch_size = 1;    // of a micro-batch: samples, columns, sentences, or tokens with padding
  int64_t global_batch = 0;  // sentences or tokens; 0: batch_size * workers
  Divisor divisor = Divisor::kWeight;
  uint64_t seed = 42;
};

// Both divisors of a plan that has its rows and its global weight.
void set_divisors(StepPlan& plan, Divisor divisor);

// What of `count` things, parted as evenly as possible among `parts` (the first ones take the larger parts), `index`
// takes.
struct Part {
  int64_t first = 0, count = 0;
};
Part even_part(int64_t count, int64_t parts, int64_t index);

// "samples". UserError as steps_per_epoch() of shard.h.
std::unique_ptr<BatchPlan> make_sample_plan(int64_t samples, const PlanOptions& options);

// What plans know of sentences. Numbers are those of the corpus.
class Sentences {
 public:
  virtual ~Sentences() = default;
  virtual const std::vector<int64_t>& kept() const = 0;  // those that are trained on, ascending
  virtual int64_t length(int64_t sentence) const = 0;    // of the longer side, as the model sees it
  virtual int64_t weight(int64_t sentence) const = 0;    // target tokens, without padding
};

// "sentences". UserError where none is kept. `sentences` outlives the plan.
std::unique_ptr<BatchPlan> make_sentence_plan(const Sentences& sentences, const PlanOptions& options);

// "tokens". Lengths are rounded up to `multiple`. UserError where none is kept, and where one is longer than a
// micro-batch. A global batch has global_batch / batch_size units, whatever the number of workers; k ranks take k parts
// of their row, so that a rank's part is whole units where k divides their number.
std::unique_ptr<BatchPlan> make_token_plan(const Sentences& sentences, int64_t multiple, const PlanOptions& options);

struct ColumnOptions {
  int64_t bptt = 70;
  double deviation = 0;
  double short_probability = 0;
};
// "columns": a text of `tokens` in batch_size * workers columns (what is left at its end is left out), whose last token
// is predicted and predicts nothing. A step takes max(5, trunc(N(m, deviation))) positions, m being bptt / 2 with
// short_probability, else bptt, or what is left of the columns; drawn from (seed, epoch), the same for all ranks.
// Merity, Keskar, Socher: "Regularizing and Optimizing LSTM Language Models", ICLR 2018, 4.1. UserError where the text
// is too short.
std::unique_ptr<BatchPlan> make_column_plan(int64_t tokens, const ColumnOptions& columns, const PlanOptions& options);

// Tokens of each of `columns` columns. UserError where a text of `tokens` has less than two for each.
int64_t column_height(int64_t tokens, int64_t columns);

}  // namespace mlbench::data
