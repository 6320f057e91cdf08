#include "mlbench/report/draw/figure.h"

#include <gmock/gmock.h>

#include "mlbench/report/run_figures.h"
#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

struct Toy {
  std::string name;
  std::optional<double> seconds = {};
  bool exact = true;
};

// A further figure needs only a further row here.
const Figures<Toy> kToys = {
    {"name", "toy", "", &Toy::name, forms::kText},
    {Named("seconds", "Time"), "time", "s", &Toy::seconds, forms::kSeconds},
    {Named("exact", "Exact"), &Toy::exact},
    {"", "twice", "s", [](const Toy& toy) { return toy.seconds ? std::optional(*toy.seconds * 2) : std::nullopt; },
     forms::kSeconds},
    {Named("words", "In words"), "in words", "", [](const Toy& toy) { return toy.name.size(); },
     [](const Toy& toy) { return toy.exact ? "exact" : "about"; }, Align::kLeft, forms::kNumber},
};

TEST(Figure, OneRowDrawsTableJsonCsvAndPage) {
  const std::vector<Toy> toys = {{"ball", 1.5}, {"top", {}, false}};
  EXPECT_EQ(table_of(kToys, toys).render(),
            "toy   time  twice  in words\n"
            "         s      s\n"
            "ball  1.50   3.00  exact\n"
            "top      -      -  about\n");
  EXPECT_EQ(json_of(kToys, toys[0]), (Json{{"name", "ball"}, {"seconds", 1.5}, {"exact", true}, {"words", 4}}));
  EXPECT_EQ(json_of(kToys, toys[1])["seconds"], nullptr);
  const Figures<Toy> keyed = chosen(kToys, {"exact", "seconds", "", "no such"});
  EXPECT_EQ(csv_heading(keyed) + csv_line(keyed, toys[0]) + csv_line(keyed, toys[1]), "exact,seconds\n1,1.5\n0,\n");
  EXPECT_EQ(described(kToys), Json::parse(R"([{"key": "seconds", "title": "Time", "unit": "s", "form": "seconds"},
                                              {"key": "exact", "title": "Exact", "unit": "", "form": "text"},
                                              {"key": "words", "title": "In words", "unit": "", "form": "number"}])"));
}

TEST(RunFigures, TableOfSummariesIsThatOfTheirRuns) {
  const record::Record record = make_record("r-1", 2, 60, 3000, true);
  const Json summary = json_of(run_figures(), ShownRun{record, figures_of(record)});
  EXPECT_EQ(summaries_table({summary, {{"name", "r-2"}, {"state", "damaged"}}},
                            {"name", "state", "workers", "train_s", "evaluation", "time_to_goal_s"}),
            "run  state     workers  train  evaluation    to goal\n"
            "                            s                      s\n"
            "r-1  finished        2   60.0  Prec@1 85.25     60.0\n"
            "r-2  damaged         -      -                      -\n");
}

}  // namespace
}  // namespace mlbench::report
