#include "mlbench/report/study/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/text.h"
#include "mlbench/report/draw/table.h"

namespace mlbench::report {

namespace {

std::string end_of(const Study& study) {
  return fmt::format("{} {} {:g} on {} data", study.metric,
                     study.higher_is_better ? ">=" : "<=", study.target.value_or(0), study.split);
}

std::string within(const std::optional<Interval>& interval) {
  return interval ? fmt::format(" ({:.2f} to {:.2f})", interval->low, interval->high) : "";
}

std::string speed_up_sentence(const Study& study, const StudyPoint& base, const StudyPoint& point) {
  const std::string cost =
      point.price_increase ? fmt::format(", at {} times the cost", format_ratio(*point.price_increase)) : std::string();
  return fmt::format("{} {} {} times as fast as {}{}{}.", counted(point.workers, "worker"),
                     study.to_goal ? fmt::format("{} {}", point.workers == 1 ? "reaches" : "reach", end_of(study))
                                   : std::string(point.workers == 1 ? "processes samples" : "process samples"),
                     format_ratio(*point.speed_up), base.workers, within(point.speed_up_interval), cost);
}

std::string gain_sentence(const StudyPoint& before, const StudyPoint& point) {
  const auto percent = [](double ratio) { return (ratio - 1) * 100; };
  const auto& interval = point.gain->interval;
  return fmt::format(
      "From {} to {} workers the gain is {:.0f} %{}.", before.workers, point.workers, percent(point.gain->ratio),
      interval ? fmt::format(" ({:.0f} to {:.0f} %)", percent(interval->low), percent(interval->high)) : std::string());
}

std::string knee_sentence(const StudyLine& line) {
  if (!line.knee) return "No worker count gains 25 % over the one before.";
  return fmt::format("The most workers that gain at least 25 % over the count before are {}.", *line.knee);
}

std::string loss_sentence(const StudyPoint& point) {
  if (!point.lost) {
    return point.time ? fmt::format("Nearly no efficiency is lost at {}.", counted(point.workers, "worker"))
                      : "Where efficiency is lost is not known: the record has no times of steps.";
  }
  return fmt::format("At {} {} of the efficiency is lost. What limits it most: {}.", counted(point.workers, "worker"),
                     format_percent(point.lost->lost), largest_loss_words(*point.lost));
}

}  // namespace

std::vector<std::string> answer_of(const Study& study, const StudyLine& line) {
  std::vector<std::string> sentences;
  std::vector<const StudyPoint*> timed;
  for (const StudyPoint& point : line.points) {
    if (point.speed_up) {
      timed.push_back(&point);
    } else if (study.to_goal && line.no_baseline.empty()) {
      sentences.push_back(fmt::format("{} of {} runs of {} missed the goal: its time needs runs that reach it.",
                                      std::ssize(point.runs) - point.reached, point.runs.size(),
                                      counted(point.workers, "worker")));
    }
  }
  if (!line.no_baseline.empty()) {
    return {fmt::format("No answer: {}. Run {} until all repeats reach the goal.", line.no_baseline,
                        counted(line.points.front().workers, "worker"))};
  }
  if (timed.size() < 2) {
    sentences.push_back(fmt::format("Only {} {} a time: run another worker count of the same task to compare.",
                                    counted(line.points.front().workers, "worker"),
                                    line.points.front().workers == 1 ? "has" : "have"));
    return sentences;
  }
  const StudyPoint &base = *timed.front(), &last = *timed.back();
  std::vector<std::string> answer = {speed_up_sentence(study, base, last)};
  const auto knee = std::ranges::find_if(timed, [&](const auto* point) { return point->workers == line.knee; });
  if (knee != timed.end() && *knee != &last) answer.push_back(speed_up_sentence(study, base, **knee));
  if (timed.size() > 2) answer.push_back(gain_sentence(*timed[timed.size() - 2], last));
  answer.push_back(knee_sentence(line));
  answer.push_back(loss_sentence(last));
  if (!study.to_goal) answer.emplace_back("Time to the goal is not known: no run reached one.");
  if (std::ranges::any_of(timed, [](const auto* point) { return point->repeats_s.size() < 2; })) {
    answer.emplace_back("Single runs have no interval: --repeat 4 tells whether a difference is real.");
  }
  std::ranges::move(sentences, std::back_inserter(answer));
  if (!line.labels.empty()) answer.push_back(fmt::format("Labels of these runs: {}.", fmt::join(line.labels, ", ")));
  return answer;
}

}  // namespace mlbench::report
