#include "mlbench/spec/goal_option.h"

#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"

namespace mlbench::spec {
namespace {

using testing::HasSubstr;

TaskSpec task() { return find_task("fashion-mnist", "", "", {}).task; }
std::string goal_refusal(const std::string& text) {
  return error_of([&] { goal_overrides(text, task()); });
}

TEST(GoalOption, ReplacesTheTasksGoal) {
  for (const auto& [text, metric, target, higher] : {std::tuple("Prec@1>=80", "Prec@1", 80.0, true),
                                                     {"Prec@1>=80.50", "Prec@1", 80.5, true},
                                                     {"loss<=0.25", "loss", 0.25, false}}) {
    SCOPED_TRACE(text);
    const FrozenTask frozen = find_task("fashion-mnist", "", "", goal_overrides(text, task()));
    const GoalSpec goal = frozen.task.goal;
    EXPECT_EQ(goal.metric, metric);
    EXPECT_EQ(goal.split, "test");
    EXPECT_EQ(goal.target, target);
    EXPECT_EQ(goal.light_target, target);
    EXPECT_EQ(goal.higher_is_better, higher);
    EXPECT_TRUE(frozen.open);
    EXPECT_EQ(frozen.hash, find_task("fashion-mnist", "", "", {}).hash);
  }
}

TEST(GoalOption, IsWrittenInTheFormInWhichItIsGiven) {
  EXPECT_EQ(goal_text(task().goal, false), "Prec@1>=91.5");
  EXPECT_EQ(goal_text(task().goal, true), "Prec@1>=85");
  const GoalSpec loss = find_task("fashion-mnist", "", "", goal_overrides("loss<=2.50", task())).task.goal;
  EXPECT_EQ(goal_text(loss, false), "loss<=2.5");
}

TEST(GoalOption, SaysWhatIsValidForTheTask) {
  const std::string valid =
      "; expected METRIC>=VALUE or METRIC<=VALUE; valid for task fashion-mnist: 'Prec@1>=VALUE', 'loss<=VALUE'";
  EXPECT_EQ(goal_refusal("80"), "--goal '80': there is neither >= nor <=" + valid);
  EXPECT_EQ(goal_refusal("Prec@1=80"), "--goal 'Prec@1=80': there is neither >= nor <=" + valid);
  EXPECT_EQ(goal_refusal("Prec@5>=80"), "--goal 'Prec@5>=80': the task does not evaluate 'Prec@5'" + valid);
  EXPECT_EQ(goal_refusal("Prec@1<=80"), "--goal 'Prec@1<=80': of Prec@1 the higher value is better" + valid);
  EXPECT_EQ(goal_refusal("loss>=1"), "--goal 'loss>=1': of loss the lower value is better" + valid);
  for (const char* value : {"", "abc", " 80", "80 ", "nan", "inf", "1e400", "1e10"}) {
    EXPECT_THAT(goal_refusal(std::string("Prec@1>=") + value), HasSubstr("is not a number from")) << value;
  }
}

}  // namespace
}  // namespace mlbench::spec
