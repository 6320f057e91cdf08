#include "mlbench/base/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "mlbench/base/errors.h"

namespace mlbench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

const std::vector<std::string> kVerbs = {"data", "download", "list", "run", "status", "stop"};

TEST(Choices, TheNearestIsFoundByAFewWrongLettersOrByItsBeginning) {
  EXPECT_THAT(nearest("statsu", kVerbs), ElementsAre("status"));
  EXPECT_THAT(nearest("down", kVerbs), ElementsAre("download"));
  EXPECT_THAT(nearest("st", kVerbs), ElementsAre("status", "stop"));
  EXPECT_THAT(nearest("stap", kVerbs), ElementsAre("stop"));
  EXPECT_THAT(nearest("stap", kVerbs, 1), ElementsAre("stop"));
  EXPECT_THAT(nearest("xyzzyx", kVerbs), IsEmpty());
}

TEST(Choices, WhatIsMostlyWrongMeansNothing) {
  EXPECT_THAT(nearest("", kVerbs), IsEmpty());
  EXPECT_THAT(nearest("x", {"lr"}), IsEmpty());
  EXPECT_THAT(nearest("max", {"sum", "mean"}), IsEmpty());
  EXPECT_THAT(nearest("--goal", {"--local", "--task"}), IsEmpty()) << "dashes are no letters that agree";
  EXPECT_THAT(nearest("--tsak", {"--local", "--task"}), ElementsAre("--task"));
  EXPECT_THAT(nearest(std::string(1 << 20, 'a'), kVerbs), IsEmpty());
}

TEST(Choices, AllPlacesReadTheSame) {
  EXPECT_EQ(unknown_text("verb", "statsu", kVerbs),
            "unknown verb 'statsu': did you mean 'status'? valid: data, download, list, run, status, stop");
  EXPECT_EQ(unknown_text("verb", "st", {"status", "stop"}),
            "unknown verb 'st': did you mean 'status' or 'stop'? valid: status, stop");
  EXPECT_EQ(unknown_text("verb", "x", {"run"}), "unknown verb 'x'; valid: run");
  EXPECT_EQ(unknown_text("verb", "x", {}), "unknown verb 'x'; there is none");
  EXPECT_EQ(unknown_text("verb", std::string(100, 'x'), {"run"}),
            "unknown verb '" + std::string(60, 'x') + "...'; valid: run");
}

TEST(Choices, OneOfThemIsNoError) {
  EXPECT_NO_THROW(check_choice("verb", "run", kVerbs));
  EXPECT_THAT([] { check_choice("shape", "o", {"circle"}); },
              ThrowsMessage<UserError>("unknown shape 'o'; valid: circle"));
}

TEST(Choices, ARowOfATableIsFoundByItsName) {
  struct Row {
    const char* name;
    int value;
  };
  constexpr std::array<Row, 2> kRows = {{{"one", 1}, {"two", 2}}};
  EXPECT_EQ(row_named(kRows, "number", "two").value, 2);
  EXPECT_THAT(names_of(kRows), ElementsAre("one", "two"));
  EXPECT_THAT([&] { row_named(kRows, "number", "onn"); },
              ThrowsMessage<UserError>("unknown number 'onn': did you mean 'one'? valid: one, two"));
  EXPECT_THAT(texts_of(std::array<std::string_view, 2>{"a", "b"}), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace mlbench
