#pragma once

// Records the layers of training passes in the rank's timeline.

#include <map>
#include <string_view>
#include <utility>

#include "mlbench/framework/framework.h"
#include "mlbench/track/timeline_recorder.h"

namespace mlbench::train {

// Records layers while the object lives. Without a timeline (null), the framework is not asked for anything.
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
  // Names of spans, by the address of the layer's name in the framework, and the pass.
  std::map<std::pair<const char*, framework::LayerPass>, std::string_view> names_;
};

}  // namespace mlbench::train
