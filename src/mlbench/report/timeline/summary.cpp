#include "mlbench/report/timeline/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "mlbench/base/build_info.h"
#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/or_null.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/text.h"
#include "mlbench/report/draw/table.h"
#include "mlbench/report/figures.h"
#include "mlbench/report/timeline/accounts.h"

namespace mlbench::report {

namespace {

constexpr size_t kMostOperationRows = 200;
constexpr size_t kShownOperations = 10;
constexpr double kMostUnattributed = 0.02;

std::optional<double> quotient(int64_t part, int64_t whole) {
  if (whole <= 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// ---- the run's verdict ---------------------------------------------------------------------------------------------

struct RunVerdict {
  std::string kind, text;
  std::optional<int64_t> rank;       // for this rank at least half of all waits was
  std::optional<std::string> cause;  // this activity caused at least half of the waits for that rank
};

// "its input (batch_load)": the name alone says little to a reader who does not know the code.
std::string cause_words(std::string_view name) {
  for (size_t i = 0; i < kActivities; ++i) {
    const auto activity = static_cast<Activity>(i);
    if (activity_name(activity) != name) continue;
    const std::string_view group = activity_group(activity);
    return group == name ? fmt::format("its {}", group) : fmt::format("its {} ({})", group, name);
  }
  return fmt::format("its {}", name);
}

void find_culprit(const TimelineAccounts& accounts, RunVerdict& verdict) {
  int64_t all = 0;
  size_t worst = 0;
  for (size_t rank = 0; rank < accounts.ranks.size(); ++rank) {
    all += accounts.ranks[rank].blame;
    if (accounts.ranks[rank].blame > accounts.ranks[worst].blame) worst = rank;
  }
  const RankAccount& one = accounts.ranks[worst];
  if (all == 0 || one.blame * 2 < all) return;
  verdict.rank = static_cast<int64_t>(worst);
  const auto cause = std::ranges::max_element(one.causes);
  if (*cause * 2 >= one.blame) {
    verdict.cause = activity_name(static_cast<Activity>(cause - one.causes.begin()));
  } else if (one.blamed_on_communication * 2 >= one.blame) {
    verdict.cause = "communication";
  }
}

std::string waiting_words(const TimelineAccounts& accounts, const RunVerdict& verdict) {
  int64_t all = 0;
  for (const RankAccount& rank : accounts.ranks) all += rank.blame;
  const std::string waited = fmt::format("ranks waited {} s for each other", format_seconds(to_seconds(all)));
  if (!verdict.rank) return waited + ", and for no rank alone most of it";
  const RankAccount& one = accounts.ranks[static_cast<size_t>(*verdict.rank)];
  std::string text =
      fmt::format("{}, {} s of it for rank {}", waited, format_seconds(to_seconds(one.blame)), *verdict.rank);
  if (!verdict.cause) return text;
  const int64_t caused =
      *verdict.cause == "communication" ? one.blamed_on_communication : *std::ranges::max_element(one.causes);
  return text + fmt::format(", {} s because of {}", format_seconds(to_seconds(caused)), cause_words(*verdict.cause));
}

RunVerdict run_verdict(const TimelineAccounts& accounts) {
  RunVerdict verdict;
  int64_t unmatched = 0;
  for (const RankAccount& rank : accounts.ranks) unmatched = std::max(unmatched, rank.unmatched);
  const int64_t unclear = accounts.inconclusive + unmatched, clear = accounts.wait + accounts.transfer;
  if (unclear + clear == 0) {
    verdict.kind = "none";
    verdict.text = "no rank waited for communication";
    return verdict;
  }
  find_culprit(accounts, verdict);
  if (unclear > clear) {
    verdict.kind = "inconclusive";
    verdict.text = fmt::format(
        "of {} s of communication {} s cannot be told apart: the clocks are not known well enough, "
        "the ranks left at different moments, or an operation has no match",
        format_seconds(to_seconds(unclear + clear)), format_seconds(to_seconds(unclear)));
    verdict.rank.reset();
    verdict.cause.reset();
    return verdict;
  }
  verdict.kind = verdict_name(verdict_of(to_seconds(accounts.wait), to_seconds(accounts.transfer), 0));
  verdict.text = verdict.kind == "transfer" ? fmt::format("moving bytes takes {} s, waiting for the last rank {} s",
                                                          format_seconds(to_seconds(accounts.transfer)),
                                                          format_seconds(to_seconds(accounts.wait)))
                                            : waiting_words(accounts, verdict);
  return verdict;
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

Json rank_json(const RankAccount& account, int64_t rank) {
  Json waits = Json::array();
  for (const auto& [other, ns] : account.waits_for) waits.push_back({{"rank", other}, {"s", to_seconds(ns)}});
  Json activities = Json::object(), causes = Json::object();
  for (size_t i = 0; i < kActivities; ++i) {
    const std::string name(activity_name(static_cast<Activity>(i)));
    if (account.own[i] > 0) activities[name] = to_seconds(account.own[i]);
    if (account.causes[i] > 0) causes[name] = to_seconds(account.causes[i]);
  }
  if (account.blamed_on_communication > 0) causes["communication"] = to_seconds(account.blamed_on_communication);
  const auto group = [&](std::string_view name) { return to_seconds(account.group(name)); };
  const int64_t unattributed = account.own[kUnattributedActivity];
  return {{"rank", rank},
          {"elapsed_s", to_seconds(account.elapsed)},
          {"compute_s", group("compute")},
          {"input_s", group("input")},
          {"exchange_s", group("exchange")},
          {"evaluation_s", group("evaluation")},
          {"checkpoint_s", group("checkpoint")},
          {"prepare_s", group("prepare")},
          {"communication",
           {{"exposed_s", to_seconds(account.wait + account.transfer + account.unmatched)},
            {"wait_s", to_seconds(account.wait)},
            {"transfer_s", to_seconds(account.transfer)},
            {"unmatched_s", to_seconds(account.unmatched)},
            {"hidden_s", to_seconds(account.hidden)}}},
          {"unattributed_s", to_seconds(unattributed)},
          {"unattributed_share", or_null(quotient(unattributed, account.elapsed))},
          {"start_s", to_seconds(account.start)},
          {"waits_for", std::move(waits)},
          {"waited_for", {{"s", to_seconds(account.blame)}, {"causes_s", std::move(causes)}}},
          {"activities_s", std::move(activities)}};
}

Json pop_json(const TimelineAccounts& accounts) {
  int64_t sum = 0, most = 0;
  for (const RankAccount& rank : accounts.ranks) {
    sum += rank.useful();
    most = std::max(most, rank.useful());
  }
  const auto count = static_cast<int64_t>(accounts.ranks.size());
  const auto balance = quotient(sum, most * count), communication = quotient(most, accounts.runtime);
  std::optional<double> serialization, transfer, ideal;
  if (accounts.ideal_known) {
    serialization = quotient(most, accounts.ideal);
    transfer = quotient(accounts.ideal, accounts.runtime);
    ideal = to_seconds(accounts.ideal);
  }
  return {{"parallel_efficiency", or_null(quotient(sum, accounts.runtime * count))},
          {"load_balance", or_null(balance)},
          {"communication_efficiency", or_null(communication)},
          {"serialization_efficiency", or_null(serialization)},
          {"transfer_efficiency", or_null(transfer)},
          {"runtime_s", to_seconds(accounts.runtime)},
          {"ideal_s", or_null(ideal)}};
}

Json operations_json(const TimelineAccounts& accounts) {
  std::vector<Json> rows;
  for (const auto& [key, one] : accounts.operations) {
    const bool unclear = one.inconclusive * 2 > one.count;
    const TimelineVerdict verdict =
        unclear ? TimelineVerdict::kInconclusive : verdict_of(to_seconds(one.wait), to_seconds(one.transfer), 0);
    Json worst = nullptr;
    if (one.worst_wait > 0) {
      worst = {{"wait_s", to_seconds(one.worst_wait)},
               {"step", one.worst_step < 0 ? Json(nullptr) : Json(one.worst_step)},
               {"rank", one.worst_rank < 0 ? Json(nullptr) : Json(one.worst_rank)}};
    }
    rows.push_back({{"name", key.first},
                    {"bytes", key.second},
                    {"count", one.count},
                    {"wait_s", to_seconds(one.wait)},
                    {"transfer_s", to_seconds(one.transfer)},
                    {"inconclusive", one.inconclusive},
                    {"verdict", verdict_name(verdict)},
                    {"worst", std::move(worst)}});
  }
  std::ranges::stable_sort(rows, std::greater(), [](const Json& row) {
    return std::pair(row["wait_s"].get<double>(), row["transfer_s"].get<double>());
  });
  if (rows.size() > kMostOperationRows) rows.resize(kMostOperationRows);
  return rows;
}

Json clocks_json(const TimelineRun& run) {
  Json clocks = Json::array();
  for (const std::vector<RankPart>& parts : run.parts) {
    for (const RankPart& part : parts) {
      Json clock = {{"segment", part.segment}, {"rank", part.rank}, {"samples", part.clock.samples()}};
      if (part.clock.known()) {
        const ClockAlignment::Figures figures = part.clock.figures();
        int64_t worst_ns = figures.bound_ns;
        for (const TimelineOperation& operation : part.operations) worst_ns = std::max(worst_ns, operation.bound_ns);
        clock.update({{"offset_ns", figures.offset_ns},
                      {"bound_us", static_cast<double>(worst_ns) / 1000},
                      {"drift_ppm", figures.drift_ppm},
                      {"drift_bound_ppm", figures.drift_bound_ppm},
                      {"steps", part.clock.steps()}});
      } else {
        clock.update({{"offset_ns", nullptr},
                      {"bound_us", nullptr},
                      {"drift_ppm", nullptr},
                      {"drift_bound_ppm", nullptr},
                      {"steps", 0}});
      }
      clocks.push_back(std::move(clock));
    }
  }
  return clocks;
}

std::vector<std::string> notes_of(const TimelineRun& run, const TimelineAccounts& accounts) {
  std::vector<std::string> notes = accounts.notes;
  if (accounts.unmatched > 0) {
    notes.push_back(fmt::format("{} operations have no match on the other ranks", accounts.unmatched));
  }
  for (size_t rank = 0; rank < accounts.ranks.size(); ++rank) {
    const RankAccount& account = accounts.ranks[rank];
    const auto share = quotient(account.own[kUnattributedActivity], account.elapsed);
    if (share && *share > kMostUnattributed) {
      notes.push_back(fmt::format("rank {}: {} of its time lies in no span", rank, format_percent(share)));
    }
  }
  for (const std::vector<RankPart>& parts : run.parts) {
    for (const RankPart& part : parts) {
      const std::string who = fmt::format("rank {}, segment {}", part.rank, part.segment);
      if (part.stretches.empty()) notes.push_back(who + ": no spans");
      if (part.left_out > 0) notes.push_back(fmt::format("{}: the last {} spans are left out", who, part.left_out));
      if (part.clock.steps() > 0) {
        notes.push_back(
            fmt::format("{}: its clock was set {} times; between it is known less well", who, part.clock.steps()));
      }
      if (run.workers > 1 && !part.stretches.empty() && !part.clock.known()) {
        notes.push_back(who + ": its clock is not known, so that it cannot be compared with others");
      }
    }
  }
  return notes;
}

}  // namespace

Json summarize_timeline(TimelineRun& run) {
  const TimelineAccounts accounts = account_for(run);
  const RunVerdict verdict = run_verdict(accounts);
  Json ranks = Json::array();
  for (size_t rank = 0; rank < accounts.ranks.size(); ++rank) {
    ranks.push_back(rank_json(accounts.ranks[rank], static_cast<int64_t>(rank)));
  }
  return {{"version", 1},
          {"made_by", build_info().version},
          {"name", text_or_null(run.record.name)},
          {"task", text_or_null(run.record.task)},
          {"backend", text_or_null(run.record.backend)},
          {"workers", run.workers},
          {"segments", run.segments},
          {"labels", figures_of(run.record).labels},
          {"verdict",
           {{"kind", verdict.kind},
            {"text", verdict.text},
            {"rank", or_null(verdict.rank)},
            {"cause", or_null(verdict.cause)},
            {"wait_s", to_seconds(accounts.wait)},
            {"transfer_s", to_seconds(accounts.transfer)},
            {"inconclusive_s", to_seconds(accounts.inconclusive)}}},
          {"ranks", std::move(ranks)},
          {"pop", pop_json(accounts)},
          {"operations", operations_json(accounts)},
          {"matched", {{"operations", accounts.matched}, {"unmatched", accounts.unmatched}}},
          {"clocks", clocks_json(run)},
          {"notes", notes_of(run, accounts)}};
}

// ---- text ----------------------------------------------------------------------------------------------------------

namespace {

std::optional<double> number_in(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

int64_t whole_in(const Json& value) {
  if (const auto whole = integer_of(value)) return *whole;
  throw UserError(fmt::format("not a summary of a timeline: {} is no whole number", value.dump()));
}

std::string ranks_table(const Json& summary) {
  Table table({{"rank", ""},
               {"elapsed", "s"},
               {"compute", "s"},
               {"input", "s"},
               {"exchange", "s"},
               {"waiting", "s"},
               {"transfer", "s"},
               {"hidden", "s"},
               {"evaluation", "s"},
               {"checkpoint", "s"},
               {"unattributed", ""},
               {"waits for", "", Align::kLeft}});
  for (const Json& rank : summary.at("ranks")) {
    std::vector<std::string> waits;
    for (const Json& one : rank.at("waits_for")) {
      waits.push_back(fmt::format("{}: {} s", whole_in(one.at("rank")), format_seconds(number_in(one.at("s")))));
    }
    const Json& communication = rank.at("communication");
    const auto seconds = [](const Json& value) { return format_seconds(number_in(value)); };
    table.add_row({std::to_string(whole_in(rank.at("rank"))), seconds(rank.at("elapsed_s")),
                   seconds(rank.at("compute_s")), seconds(rank.at("input_s")), seconds(rank.at("exchange_s")),
                   seconds(communication.at("wait_s")), seconds(communication.at("transfer_s")),
                   seconds(communication.at("hidden_s")), seconds(rank.at("evaluation_s")),
                   seconds(rank.at("checkpoint_s")), format_percent(number_in(rank.at("unattributed_share"))),
                   fmt::format("{}", fmt::join(waits, ", "))});
  }
  return table.render();
}

std::string operations_table(const Json& summary) {
  Table table({{"operation", "", Align::kLeft},
               {"size", ""},
               {"count", ""},
               {"waiting", "s"},
               {"transfer", "s"},
               {"verdict", "", Align::kLeft},
               {"longest wait", "", Align::kLeft}});
  const Json& operations = summary.at("operations");
  for (size_t i = 0; i < std::min(kShownOperations, operations.size()); ++i) {
    const Json& one = operations[i];
    std::string worst;
    if (const Json& found = one.at("worst"); found.is_object()) {
      worst = format_seconds(number_in(found.at("wait_s"))) + " s";
      if (found.at("rank").is_number()) worst += fmt::format(" for rank {}", whole_in(found.at("rank")));
      if (found.at("step").is_number()) worst += fmt::format(", step {}", whole_in(found.at("step")));
    }
    table.add_row({one.at("name").get<std::string>(),
                   format_bytes(static_cast<uint64_t>(std::max<int64_t>(0, whole_in(one.at("bytes"))))),
                   format_count(whole_in(one.at("count"))), format_seconds(number_in(one.at("wait_s"))),
                   format_seconds(number_in(one.at("transfer_s"))), one.at("verdict").get<std::string>(), worst});
  }
  return table.empty() ? "" : "\n" + table.render();
}

std::string clocks_line(const Json& summary) {
  double bound_us = 0, drift_ppm = 0;
  bool known = false;
  for (const Json& clock : summary.at("clocks")) {
    if (!clock.at("bound_us").is_number()) continue;
    known = true;
    bound_us = std::max(bound_us, clock.at("bound_us").get<double>());
    drift_ppm = std::max(drift_ppm, std::abs(clock.at("drift_ppm").get<double>()));
  }
  return known ? fmt::format("clocks: known to within {:.3g} us, drifts up to {:.3g} ppm\n", bound_us, drift_ppm)
               : "clocks: not known\n";
}

std::string heading(const Json& summary) {
  std::vector<std::string> words = {counted(whole_in(summary.at("workers")), "rank")};
  for (const char* name : {"task", "backend"}) {
    if (summary.at(name).is_string()) words.push_back(summary.at(name).get<std::string>());
  }
  for (const Json& label : summary.at("labels")) words.push_back(label.get<std::string>());
  const std::string name = summary.at("name").is_string() ? summary.at("name").get<std::string>() : "a run";
  return printable(fmt::format("{}: {}", name, fmt::join(words, ", "))) + "\n";
}

std::string text_of(const Json& summary) {
  const Json &verdict = summary.at("verdict"), &pop = summary.at("pop");
  std::string text = heading(summary);
  text += printable(fmt::format("verdict: {}: {}", verdict.at("kind").get<std::string>(),
                                verdict.at("text").get<std::string>()),
                    2000) +
          "\n\n";
  text += ranks_table(summary) + "\n";
  const auto percent = [&](const char* name) { return format_percent(number_in(pop.at(name))); };
  text += fmt::format(
      "parallel efficiency {} = load balance {} x communication efficiency {}\n"
      "communication efficiency = serialization {} x transfer {}\n",
      percent("parallel_efficiency"), percent("load_balance"), percent("communication_efficiency"),
      percent("serialization_efficiency"), percent("transfer_efficiency"));
  text += operations_table(summary) + "\n" + clocks_line(summary);
  for (const Json& note : summary.at("notes")) text += "note: " + printable(note.get<std::string>()) + "\n";
  return text;
}

}  // namespace

std::string timeline_summary_text(const Json& summary) {
  try {
    return text_of(summary);
  } catch (const Json::exception& error) {
    throw UserError(fmt::format("not a summary of a timeline: {}", error.what()));
  }
}

}  // namespace mlbench::report
