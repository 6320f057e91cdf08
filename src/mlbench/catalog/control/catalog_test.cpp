#include "mlbench/catalog/control/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"

namespace mlbench::catalog {
namespace {

TEST(ExecutorTable, EveryRowMakesAnExecutorOfItsName) {
  ASSERT_FALSE(executors().empty());
  for (const ExecutorRow& row : executors()) EXPECT_EQ(make_executor(row.name)->name(), row.name);
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
