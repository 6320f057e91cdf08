#include "mlbench/report/study/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/report/draw/figure.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kTauMax = 4;
constexpr int kPublishedPoints = 100;
constexpr int kDraws = 2000;
constexpr double kSpreadOfSteps = 1.1;  // seconds per step of repeats, largest over smallest, from which a note says it

// Times to the target of all submissions: [submission][workload].
using Times = std::vector<std::vector<double>>;

std::vector<double> fastest_of(const Times& times) {
  std::vector<double> fastest(times.front().size(), kInfinite);
  for (const std::vector<double>& of_submission : times) {
    for (size_t w = 0; w < fastest.size(); ++w) fastest[w] = std::min(fastest[w], of_submission[w]);
  }
  return fastest;
}

// Times over denominators; infinite where a target was missed.
std::vector<double> ratios_of(const std::vector<double>& times, const std::vector<double>& denominators) {
  std::vector<double> ratios;
  for (size_t w = 0; w < times.size(); ++w) {
    ratios.push_back(std::isfinite(times[w]) ? times[w] / denominators[w] : kInfinite);
  }
  return ratios;
}

double share_within(const std::vector<double>& ratios, double tau) {
  const auto within = std::ranges::count_if(ratios, [tau](double ratio) { return ratio <= tau; });
  return static_cast<double>(within) / static_cast<double>(ratios.size());
}

// The mean of the profile over tau from 1 to `tau_max`: each workload adds from its ratio on.
double exact_score(const std::vector<double>& ratios, double tau_max) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::max(0.0, tau_max - std::max(1.0, ratio)) / (tau_max - 1);
  return sum / static_cast<double>(ratios.size());
}

double published_score(const std::vector<double>& ratios) {
  double area = 0, before = 0;
  for (int i = 0; i < kPublishedPoints; ++i) {
    const double share = share_within(ratios, 1 + (kTauMax - 1) * i / (kPublishedPoints - 1));
    if (i > 0) area += (before + share) / 2;
    before = share;
  }
  return area / (kPublishedPoints - 1);
}

Interval leave_one_out(const std::vector<double>& ratios) {
  Interval range{1, 0};
  for (size_t left_out = 0; left_out < ratios.size(); ++left_out) {
    std::vector<double> others = ratios;
    if (others.size() > 1) others.erase(others.begin() + static_cast<ptrdiff_t>(left_out));
    const double score = exact_score(others, kTauMax);
    range = {std::min(range.low, score), std::max(range.high, score)};
  }
  return range;
}

class Scorer {
 public:
  Scorer(const std::vector<Submission>& submissions, const std::map<std::string, std::string>& held_out)
      : submissions_(submissions), held_out_(held_out) {
    if (submissions.empty()) throw UserError("no submission to score");
    std::set<std::string> names;
    for (const Submission& one : submissions) {
      for (const auto& [workload, times] : one.workloads) names.insert(workload);
    }
    for (const std::string& name : names) (held_out.contains(name) ? variants_ : workloads_).push_back(name);
    if (workloads_.empty()) throw UserError("no workload to score: no submission was measured on any");
  }

  const std::vector<std::string>& workloads() const { return workloads_; }

  // Times by workload, with those of `repeats_of` a submission's measurements on a workload.
  template <typename RepeatsOf>
  Times times(const RepeatsOf& repeats_of) const {
    Times times = times_of(workloads_, repeats_of);
    if (variants_.empty()) return times;
    const Times variants = times_of(variants_, repeats_of);
    const std::vector<double> fastest = fastest_of(variants);
    for (size_t s = 0; s < submissions_.size(); ++s) {
      for (size_t v = 0; v < variants_.size(); ++v) {
        const auto base = std::ranges::find(workloads_, held_out_.at(variants_[v]));
        const bool reached = std::isfinite(variants[s][v]) && variants[s][v] <= kTauMax * fastest[v];
        if (base != workloads_.end() && !reached) times[s][static_cast<size_t>(base - workloads_.begin())] = kInfinite;
      }
    }
    return times;
  }
  Times times() const {
    return times([](const WorkloadTimes& one) { return one.target_s; });
  }

 private:
  template <typename RepeatsOf>
  Times times_of(const std::vector<std::string>& workloads, const RepeatsOf& repeats_of) const {
    Times times;
    for (const Submission& one : submissions_) {
      std::vector<double>& row = times.emplace_back();
      for (const std::string& workload : workloads) {
        const auto found = one.workloads.find(workload);
        row.push_back(found == one.workloads.end() ? kInfinite : median(repeats_of(found->second)).value_or(kInfinite));
      }
    }
    return times;
  }

  const std::vector<Submission>& submissions_;
  const std::map<std::string, std::string>& held_out_;
  std::vector<std::string> workloads_, variants_;
};

// The middle 95 % of each submission's score, its repeats drawn with replacement. All draws are a function of their
// number.
std::vector<std::optional<Interval>> over_repeats(const std::vector<Submission>& submissions, const Scorer& scorer) {
  std::vector<std::vector<double>> scores(submissions.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    RandomSequence random(derive_key(42, {kBootstrapStream, static_cast<uint64_t>(draw)}));
    const Times times = scorer.times([&](const WorkloadTimes& one) {
      std::vector<double> drawn;
      for (size_t i = 0; i < one.target_s.size(); ++i) drawn.push_back(one.target_s[random.below(one.target_s.size())]);
      return drawn;
    });
    const std::vector<double> fastest = fastest_of(times);
    for (size_t s = 0; s < times.size(); ++s) scores[s].push_back(exact_score(ratios_of(times[s], fastest), kTauMax));
  }
  std::vector<std::optional<Interval>> intervals;
  for (size_t s = 0; s < submissions.size(); ++s) {
    const bool repeated =
        std::ranges::any_of(submissions[s].workloads, [](const auto& one) { return one.second.target_s.size() > 1; });
    std::ranges::sort(scores[s]);
    constexpr size_t kTail = kDraws / 40;
    intervals.push_back(repeated ? std::optional(Interval{scores[s][kTail], scores[s][kDraws - 1 - kTail]})
                                 : std::nullopt);
  }
  return intervals;
}

std::optional<double> speed_up(const std::vector<double>& times, const std::vector<double>& reference) {
  std::vector<double> ratios;
  for (size_t w = 0; w < times.size(); ++w) {
    if (std::isfinite(times[w]) && std::isfinite(reference[w])) ratios.push_back(reference[w] / times[w]);
  }
  return geometric_mean(ratios);
}

void note_steps(const Submission& submission, std::vector<std::string>& notes) {
  for (const auto& [workload, times] : submission.workloads) {
    if (times.step_s.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(times.step_s);
    if (most <= kSpreadOfSteps * least) continue;
    notes.push_back(fmt::format("{} on {}: seconds per step of its repeats differ by a factor of {:.3g}",
                                submission.name, workload, most / least));
  }
}

std::string interval_text(const std::optional<Interval>& interval) {
  return interval ? fmt::format("{:.4f} to {:.4f}", interval->low, interval->high) : std::string(kNone);
}

const Figures<SubmissionScore>& score_figures() {
  using Row = SubmissionScore;
  static const Figures<Row> kFigures = {
      {"name", "submission", "", &Row::name, forms::kText},
      {"published", "published", "rule", &Row::published, forms::kFixed4},
      {"score_2", "exact", "to 2", &Row::score_2, forms::kFixed4},
      {"score_4", "exact", "to 4", &Row::score_4, forms::kFixed4},
      {"score_8", "exact", "to 8", &Row::score_8, forms::kFixed4},
      {"leave_one_out", "one workload", "left out", [](const Row& row) { return json_of(row.leave_one_out); },
       [](const Row& row) { return interval_text(row.leave_one_out); }},
      {"over_repeats", "over repeats", "95 %", [](const Row& row) { return json_of(row.over_repeats); },
       [](const Row& row) { return interval_text(row.over_repeats); }},
      {"beside_reference", "beside", "reference", &Row::beside_reference, forms::kFixed4},
      {"speed_up", "speed-up", "reference", &Row::speed_up, forms::kRatio},
  };
  return kFigures;
}

}  // namespace

Scores score(const std::vector<Submission>& submissions, const std::string& reference,
             const std::map<std::string, std::string>& held_out) {
  const Scorer scorer(submissions, held_out);
  Scores scores;
  scores.workloads = scorer.workloads();
  scores.reference = reference;
  if (!reference.empty()) check_choice("reference", reference, names_of(submissions));
  const Times times = scorer.times();
  const std::vector<double> fastest = fastest_of(times);
  const auto intervals = over_repeats(submissions, scorer);
  for (size_t s = 0; s < submissions.size(); ++s) {
    const std::vector<double> ratios = ratios_of(times[s], fastest);
    SubmissionScore one;
    one.name = submissions[s].name;
    for (const double time : times[s]) {
      one.target_s.push_back(std::isfinite(time) ? std::optional(time) : std::nullopt);
    }
    one.published = published_score(ratios);
    one.score_2 = exact_score(ratios, 2);
    one.score_4 = exact_score(ratios, 4);
    one.score_8 = exact_score(ratios, 8);
    one.leave_one_out = leave_one_out(ratios);
    one.over_repeats = intervals[s];
    scores.submissions.push_back(std::move(one));
    note_steps(submissions[s], scores.notes);
  }
  for (size_t s = 0; s < submissions.size() && !reference.empty(); ++s) {
    const auto pinned =
        static_cast<size_t>(std::ranges::find(submissions, reference, &Submission::name) - submissions.begin());
    scores.submissions[s].beside_reference = exact_score(ratios_of(times[s], times[pinned]), kTauMax);
    scores.submissions[s].speed_up = speed_up(times[s], times[pinned]);
  }
  return scores;
}

Chart profile_chart(const Scores& scores) {
  Chart chart;
  chart.id = "profile";
  chart.title = "Performance profile";
  chart.subtitle = fmt::format("{} workloads", scores.workloads.size());
  chart.x_label = "tau: time to the target, over the fastest";
  chart.y_label = "share of workloads within tau";
  Times times;
  for (const SubmissionScore& one : scores.submissions) {
    std::vector<double>& row = times.emplace_back();
    for (const std::optional<double>& time : one.target_s) row.push_back(time.value_or(kInfinite));
  }
  const std::vector<double> fastest = fastest_of(times);
  for (size_t s = 0; s < times.size(); ++s) {
    const std::vector<double> ratios = ratios_of(times[s], fastest);
    ChartSeries series{.name = scores.submissions[s].name, .points = {}};
    for (int i = 0; i < kPublishedPoints; ++i) {
      const double tau = 1 + (kTauMax - 1) * i / (kPublishedPoints - 1);
      series.points.push_back({tau, share_within(ratios, tau)});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::string scores_text(const Scores& scores) {
  std::string text = table_of(score_figures(), scores.submissions).render() + "\n";
  std::vector<Column> columns = {{"time to the target", "", Align::kLeft}};
  for (const SubmissionScore& one : scores.submissions) columns.push_back({one.name, "s"});
  Table times(columns);
  for (size_t w = 0; w < scores.workloads.size(); ++w) {
    std::vector<std::string> cells = {scores.workloads[w]};
    for (const SubmissionScore& one : scores.submissions) {
      cells.push_back(one.target_s[w] ? format_seconds(one.target_s[w]) : "missed");
    }
    times.add_row(cells);
  }
  text += times.render();
  for (const std::string& note : scores.notes) text += fmt::format("\nnote: {}", note);
  return scores.notes.empty() ? text : text + "\n";
}

Json to_json(const Scores& scores) {
  Json submissions = Json::array();
  for (const SubmissionScore& one : scores.submissions) {
    Json row = json_of(score_figures(), one);
    row["target_s"] = Json::object();
    for (size_t w = 0; w < scores.workloads.size(); ++w) {
      row["target_s"][scores.workloads[w]] = one.target_s[w] ? Json(*one.target_s[w]) : Json(nullptr);
    }
    submissions.push_back(std::move(row));
  }
  return {{"workloads", scores.workloads},
          {"reference", scores.reference.empty() ? Json(nullptr) : Json(scores.reference)},
          {"submissions", std::move(submissions)},
          {"notes", scores.notes}};
}

}  // namespace mlbench::report
