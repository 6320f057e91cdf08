#include "mlbench/record/legacy_names.h"

#include <gtest/gtest.h>

namespace mlbench::record {
namespace {

TEST(LegacyNames, AreTakenApart) {
  EXPECT_EQ(key_of_legacy_name("train_loss", 2), (SeriesKey{"train", "loss", 2}));
  EXPECT_EQ(key_of_legacy_name("val_Prec@1", 2), (SeriesKey{"test", "Prec@1", 2}));
  EXPECT_EQ(key_of_legacy_name("val_global_Prec@1", 0), (SeriesKey{"test", "Prec@1", kAllRanks}));
  EXPECT_EQ(key_of_legacy_name("val_global_Prec@1", 2), (SeriesKey{"", "val_global_Prec@1", 2}));
  EXPECT_EQ(key_of_legacy_name("agg", 2), (SeriesKey{"", "agg", 2}));
  EXPECT_EQ(key_of_legacy_name("train_", 0), (SeriesKey{"", "train_", 0}));
}

TEST(LegacyNames, ComeBackAsTheyWere) {
  for (const char* name : {"train_loss", "train_", "train_train_x", "val_loss", "val_", "val_val_x", "val_global_loss",
                           "val_global_", "val_global", "val_global_global_x", "lr", "", "CumulativeTrainTimeEpoch"}) {
    for (const int64_t rank : {0, 1, 7}) {
      EXPECT_EQ(legacy_name_of(key_of_legacy_name(name, rank)), (LegacyName{name, rank}));
    }
  }
}

TEST(LegacyNames, OfAllRanksAreThoseOfTheFirst) {
  EXPECT_EQ(legacy_name_of({"train", "Prec@1", kAllRanks}), (LegacyName{"train_Prec@1", 0}));
  EXPECT_EQ(with_rank(legacy_name_of({"test", "Prec@1", kAllRanks})), "val_global_Prec@1 @ 0");
  EXPECT_EQ(with_rank(legacy_name_of({"test", "loss", 3})), "val_loss @ 3");
}

}  // namespace
}  // namespace mlbench::record
