#pragma once

// The layers of training passes in the rank's timeline.

#include <map>
#include <string_view>
#include <utility>

#include "mlbench/framework/framework.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::train {

// From its making to its end. Without a timeline (null) nobody asks the framework for anything.
class LayerSpans {
 public:
  LayerSpans(framework::Framework& framework, track::TimelineRecorder* timeline);
  ~LayerSpans();
  LayerSpans(const LayerSpans&) = delete;
  LayerSpans& operator=(const LayerSpans&) = delete;

 private:
  std::string_view name_of(const framework::LayerTime& time);

  framework::Framework& framework_;
  track::TimelineRecorder* const timeline_;
  // By where the framework has the layer's name.
  std::map<std::pair<const char*, framework::LayerPass>, std::string_view> names_;
};

}  // namespace mlbench::train
