#include "mlbench/catalog/control/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/test_error.h"

namespace mlbench::catalog {
namespace {

TEST(ExecutorTable, EveryRowMakesAnExecutorOfItsName) {
  ASSERT_FALSE(executors().empty());
  for (const ExecutorRow& row : executors()) EXPECT_EQ(make_executor(row.name)->name(), row.name);
}

TEST(ExecutorTable, WhatIsNotTakenIsNamedWithThoseThatTakeIt) {
  spec::EngineOptions engine;
  engine.scratch = "/scratch";
  EXPECT_THAT(error_of([&] { make_executor("local", engine); }),
              testing::StartsWith("--scratch: the executor 'local' starts ranks on this host alone; executors that "
                                  "take it: "));
}

TEST(ExecutorTable, UnknownNameListsTheValidOnes) {
  try {
    make_executor("slrum");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "unknown executor 'slrum': valid are local");
  }
}

}  // namespace
}  // namespace mlbench::catalog
