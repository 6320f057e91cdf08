#include "mlbench/record/exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/record/step_reader.h"

namespace mlbench::record {

namespace {

// The exchanges in one rank's segment, step by step.
class Exchanges {
 public:
  Exchanges(const std::filesystem::path& run_dir, int64_t segment, int64_t rank)
      : path_(steps_path(run_dir, segment, rank)), steps_(run_dir, segment, rank) {
    read();
  }
  bool any() const { return record_.has_value(); }  // false after the last
  uint64_t step() const { return record_->first_step + in_record_; }
  int64_t ns() const { return record_->exchange_ns[in_record_]; }
  int64_t hidden_ns() const { return record_->hidden_ns[in_record_]; }
  void advance() {
    if (++in_record_ == record_->count) read();
  }
  // Checks a rank whose peers have recorded steps.
  void check() const {
    if (!steps_.has_header()) throw UserError(path_.string() + " is lost");
  }

 private:
  void read() {
    record_ = steps_.next();
    in_record_ = 0;
  }

  std::filesystem::path path_;
  StepReader steps_;
  std::optional<StepRecord> record_;
  uint64_t in_record_ = 0;
};

// Moves all ranks to the next step that all of them have. Returns whether there is one.
bool align(std::vector<Exchanges>& ranks, bool& all_steps) {
  for (;;) {
    uint64_t latest = 0;
    for (const Exchanges& rank : ranks) {
      if (!rank.any()) return false;
      latest = std::max(latest, rank.step());
    }
    bool aligned = true;
    for (Exchanges& rank : ranks) {
      while (rank.any() && rank.step() < latest) {
        rank.advance();
        all_steps = false;
      }
      aligned = aligned && rank.any() && rank.step() == latest;
    }
    if (aligned) return true;
  }
}

// Adds the first `most` steps of a segment.
void add_segment(std::vector<Exchanges> ranks, uint64_t most, ExchangeTimes& times) {
  if (std::ranges::none_of(ranks, &Exchanges::any)) return;
  for (const Exchanges& rank : ranks) rank.check();
  while (align(ranks, times.all_steps)) {
    if (ranks.front().step() >= most) return;
    const int64_t shortest = std::ranges::min_element(ranks, {}, &Exchanges::ns)->ns();
    times.transfer_ns += shortest;
    ++times.steps;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      times.wait_ns[rank] += ranks[rank].ns() - shortest;
      times.hidden_ns[rank] += ranks[rank].hidden_ns();
      times.exposed_ns[rank] += ranks[rank].ns() - ranks[rank].hidden_ns();
      ranks[rank].advance();
    }
  }
  if (std::ranges::any_of(ranks, &Exchanges::any)) times.all_steps = false;
}

bool one_blocking_collective(const spec::RunSpec& spec, const Effective& effective) {
  if (effective.one_collective) return *effective.one_collective;
  const Json& options = spec.task.task.optimizer.options;  // of a run of an earlier program
  return effective.overlap == false && effective.buckets == 1 && options.value("compression", Json("none")) == "none";
}

}  // namespace

ExchangeTimes derive_exchange(const std::filesystem::path& run_dir, int64_t workers, int64_t segments,
                              const Moment& until) {
  ExchangeTimes times;
  for (auto* of_ranks : {&times.wait_ns, &times.exposed_ns, &times.hidden_ns}) {
    of_ranks->resize(static_cast<size_t>(workers));
  }
  for (int64_t segment = 1; segment <= std::min(segments, until.segment); ++segment) {
    std::vector<Exchanges> ranks;
    for (int64_t rank = 0; rank < workers; ++rank) ranks.emplace_back(run_dir, segment, rank);
    add_segment(std::move(ranks), segment == until.segment ? until.step : Moment().step, times);
  }
  return times;
}

std::optional<Exchange> exchange_of(const spec::RunSpec& spec, int64_t segments, const Effective& effective,
                                    std::vector<std::string>* notes, const Moment& until) {
  if (spec.workers < 2 || !spec::trains(spec)) return std::nullopt;
  ExchangeTimes times;
  try {
    times = derive_exchange(spec.run_dir, spec.workers, segments, until);
  } catch (const std::runtime_error& error) {
    const auto says_it = [&](const std::string& note) { return note.ends_with(error.what()); };
    if (notes && std::ranges::none_of(*notes, says_it)) {
      notes->push_back(fmt::format("wait and transfer are not known: {}", error.what()));
    }
    return std::nullopt;
  }
  if (times.steps == 0) return std::nullopt;
  if (notes && !times.all_steps) {
    notes->push_back(fmt::format("wait and transfer are of the {} steps that all ranks recorded", times.steps));
  }
  const auto seconds = [](const std::vector<int64_t>& of_ranks) {
    std::vector<double> list;
    for (const int64_t ns : of_ranks) list.push_back(to_seconds(ns));
    return list;
  };
  Exchange exchange;
  exchange.wait_s = seconds(times.wait_ns);
  exchange.transfer_s = seconds(std::vector<int64_t>(times.wait_ns.size(), times.transfer_ns));
  exchange.exposed_s = seconds(times.exposed_ns);
  exchange.hidden_s = seconds(times.hidden_ns);
  exchange.exact = one_blocking_collective(spec, effective);
  exchange.steps = times.steps;
  return exchange;
}

}  // namespace mlbench::record
