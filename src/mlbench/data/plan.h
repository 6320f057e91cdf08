#pragma once

// Which samples make global step s on rank r, in which micro-batches. A plan is pure, the same on all ranks, and can
// begin at any step. An epoch sees each sample once, except those that a plan says it leaves out. All ranks take the
// same number of steps.
//
//   samples    a permutation of the training set, cut into global batches (shard.h), of which a rank's part is cut into
//              micro-batches of at most batch_size
//   sentences  a permutation, cut into global batches of N sentences; a rank's part is sorted by length and cut into
//              micro-batches
//   tokens     sentences of similar length make units of at most so many tokens; a global batch is some units, drawn
//   columns    the text in batch_size * k columns, read from top to bottom in pieces of drawn length

#include <cstdint>
#include <memory>
#include <vector>

namespace mlbench::data {

// One micro-batch: rows [begin, begin + count) of its StepPlan. In a plan of columns these rows are columns, of which
// the piece takes the positions [first, first + positions).
struct Piece {
  int64_t begin = 0, count = 0;
  int64_t first = 0, positions = 0;
  bool continues = false;  // the columns' state goes on from the piece before
};

// One rank's part of one global step.
struct StepPlan {
  int64_t epoch = 0, step_in_epoch = 0;
  std::vector<int64_t> rows;   // numbers of records, or of columns
  std::vector<Piece> pieces;   // empty: this rank has no samples in this step
  int64_t global_samples = 0;  // of all ranks
  int64_t global_weight = 0;   // of all ranks: what their means are over (BatchView::weight)
  // A micro-batch's weight over `divisor` is its share of the step's gradient. The ranks' exchange sums the shares; the
  // sum is divided by `sum_divisor`.
  double divisor = 1, sum_divisor = 1;
  double relative_length = 1;  // of the step's sequences, for learning rates that follow it
};

// The whole order of one epoch, computed once. Any number of threads may use it.
class EpochPlan {
 public:
  virtual ~EpochPlan() = default;
  // Sets `plan` to this rank's part of that step, and reuses the plan's memory.
  virtual void fill(int64_t step_in_epoch, int64_t rank, StepPlan& plan) const = 0;
};

class BatchPlan {
 public:
  virtual ~BatchPlan() = default;

  virtual std::unique_ptr<const EpochPlan> epoch(int64_t number) const = 0;
  // The number of steps in all epochs before this one, which is the number of its first step.
  virtual int64_t first_step(int64_t epoch) const = 0;
  // The epoch to which step `step` (from 0) belongs.
  virtual int64_t epoch_of(int64_t step) const = 0;
  // The samples of all ranks in the first `steps` steps of an epoch: images, pairs of sentences, tokens of a text.
  virtual int64_t samples_in(int64_t epoch, int64_t steps) const = 0;
  virtual int64_t samples_per_epoch() const = 0;

  int64_t steps_in(int64_t epoch) const { return first_step(epoch + 1) - first_step(epoch); }
  // The steps of the first epoch, which schedules use. Where lengths are drawn, other epochs differ a little.
  int64_t steps_per_epoch() const { return steps_in(0); }
  // Whether an epoch ends after `steps` (> 0) steps.
  bool ends_epoch(int64_t steps) const { return first_step(epoch_of(steps)) == steps; }
  // The number of epochs in `steps` steps, and the number of steps in `epochs` epochs, rounded up.
  double epochs_after(int64_t steps) const;
  int64_t steps_after(double epochs) const;
  int64_t samples_after(int64_t steps) const;
};

// The base class of plans whose epochs all have the same number of steps.
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
  int64_t global_batch = 0;  // samples, sentences or tokens; 0: batch_size * workers
  Divisor divisor = Divisor::kWeight;
  uint64_t seed = 42;
};

// Sets both divisors of a plan that has its rows and its global weight.
void set_divisors(StepPlan& plan, Divisor divisor);

// The part that `index` takes of `count` things, which are divided as evenly as possible into `parts` parts. The first
// parts are the larger ones.
struct Part {
  int64_t first = 0, count = 0;
};
Part even_part(int64_t count, int64_t parts, int64_t index);

// The plan "samples", of the records [0, samples). Throws UserError as steps_per_epoch() of shard.h does.
std::unique_ptr<BatchPlan> make_sample_plan(int64_t samples, const PlanOptions& options);
// The plan "samples" of these records alone.
std::unique_ptr<BatchPlan> make_sample_plan(std::vector<int64_t> records, const PlanOptions& options);

// A division of the training set into records that are trained on and records that are held out for evaluations: the
// same for every seed and every number of workers.
struct Holdout {
  std::vector<int64_t> trained, held_out;  // ascending
};
// Holds out floor(samples * share) records, drawn at random. Throws UserError where either part is empty.
Holdout hold_out(int64_t samples, double share);
// The number of records, or of a text's tokens, that are held out. Throws UserError where either part is empty.
int64_t held_out_count(int64_t samples, double share);

// What plans know of sentences. A sentence's number is its number in the corpus.
class Sentences {
 public:
  virtual ~Sentences() = default;
  virtual const std::vector<int64_t>& kept() const = 0;  // the sentences that are trained on, ascending
  virtual int64_t length(int64_t sentence) const = 0;    // of the longer side, as the model sees it
  virtual int64_t weight(int64_t sentence) const = 0;    // target tokens, without padding
};

// The plan "sentences". Throws UserError where no sentence is kept. `sentences` must outlive the plan.
std::unique_ptr<BatchPlan> make_sentence_plan(const Sentences& sentences, const PlanOptions& options);

// The plan "tokens". Lengths are rounded up to `multiple`. Throws UserError where no sentence is kept, and where one is
// longer than a micro-batch. A global batch has global_batch / batch_size units for any number of workers. k ranks take
// k parts of the units' row, so that a rank's part is whole units where k divides their number.
std::unique_ptr<BatchPlan> make_token_plan(const Sentences& sentences, int64_t multiple, const PlanOptions& options);

struct ColumnOptions {
  int64_t bptt = 70;
  double deviation = 0;
  double short_probability = 0;
};
// The plan "columns": a text of `tokens` in batch_size * workers columns (the rest at its end is left out). A column's
// last token is only predicted. A step takes max(5, trunc(N(m, deviation))) positions, or what is left of the columns;
// m is bptt / 2 with probability short_probability, else bptt. The lengths are drawn from (seed, epoch), the same for
// all ranks. See Merity, Keskar, Socher: "Regularizing and Optimizing LSTM Language Models", ICLR 2018, 4.1. Throws
// UserError where the text is too short.
std::unique_ptr<BatchPlan> make_column_plan(int64_t tokens, const ColumnOptions& columns, const PlanOptions& options);

// The number of tokens in each of `columns` columns. Throws UserError where there are less than two for each.
int64_t column_height(int64_t tokens, int64_t columns);

}  // namespace mlbench::data
