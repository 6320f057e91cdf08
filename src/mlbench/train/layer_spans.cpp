#include "mlbench/train/layer_spans.h"

#include <string>

namespace mlbench::train {

LayerSpans::LayerSpans(framework::Framework& framework, track::TimelineRecorder* timeline)
    : framework_(framework), timeline_(timeline) {
  if (timeline_ == nullptr) return;
  framework_.on_layer(timeline_->clock(), [this](const framework::LayerTime& time) {
    timeline_->span(record::SpanKind::kLayer, name_of(time), time.begin, time.end);
  });
}

LayerSpans::~LayerSpans() {
  if (timeline_ != nullptr) framework_.on_layer(timeline_->clock(), {});
}

std::string_view LayerSpans::name_of(const framework::LayerTime& time) {
  const auto [name, is_new] = names_.try_emplace({time.layer.data(), time.pass});
  if (is_new) {
    const char* pass = time.pass == framework::LayerPass::kForward ? " forward" : " backward";
    name->second = timeline_->kept(std::string(time.layer) + pass);
  }
  return name->second;
}

}  // namespace mlbench::train
