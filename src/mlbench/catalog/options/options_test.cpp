#include "mlbench/catalog/options/options.h"

#include <gtest/gtest.h>

#include <set>

#include "mlbench/base/json.h"
#include "mlbench/catalog/options/executors.h"

namespace mlbench::catalog {
namespace {

TEST(ExecutorOptions, AreInTheSchemaOfTheRecord) {
  const Json schema = read_json_file(RUN_SCHEMA)["properties"]["engine"]["oneOf"][1]["properties"];
  for (const spec::RunOption& option : run_options()) {
    if (!option.of_executor()) continue;
    EXPECT_TRUE(schema.contains(option.name)) << "api/run.schema.json: engine lacks \"" << option.name << "\"";
  }
}

TEST(ExecutorOptions, WhatSeveralTakeMeansTheSame) {
  std::set<std::string_view> names;
  for (const spec::RunOption& option : run_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    for (const ExecutorRow& executor : executors()) {
      for (const spec::RunOption& its : executor.options) {
        EXPECT_TRUE(its.of_executor()) << its.name;
        if (its.name != option.name) continue;
        EXPECT_EQ(its.flags, option.flags);
        EXPECT_EQ(its.help, option.help);
        EXPECT_EQ(its.kind, option.kind);
        EXPECT_EQ(its.form, option.form);
      }
    }
  }
  EXPECT_TRUE(takes("slurm", "setup"));
  EXPECT_FALSE(takes("mpirun", "setup"));
  EXPECT_FALSE(takes("slrum", "setup"));
  EXPECT_EQ(label_of_option("setup"), "--setup");
}

TEST(ExecutorFacts, OfNobodyNothingHolds) {
  EXPECT_TRUE(facts_of("local").on_this_host);
  EXPECT_FALSE(facts_of("mpirun").shares_hosts);
  EXPECT_FALSE(facts_of("locale").on_this_host);
}

}  // namespace
}  // namespace mlbench::catalog
