#pragma once

// The members of a record and of its parts, each named once: for spec/fields.h, which reads and writes JSON by them.

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "mlbench/record/build_record.h"
#include "mlbench/record/collectives_fields.h"
#include "mlbench/record/describe.h"
#include "mlbench/record/record.h"

namespace mlbench::record {

template <typename V, Either<Limits> T>
void describe(V& v, T& limits) {
  v.field("max_steps", limits.max_steps);
  v.field("max_epochs", limits.max_epochs);
  v.field("max_time_s", limits.max_time_s);
  v.field("light", limits.light);
  v.field("to_the_end", limits.to_the_end);
  v.others(limits.others);
}

void describe_choices(auto& v, auto& choices) {
  text(v, "device", choices.device);
  text(v, "precision", choices.precision);
  text(v, "layout", choices.layout);
  v.field("overlap", choices.overlap);
  v.field("buckets", choices.buckets);
  v.field("by_layer", choices.by_layer);
  v.field("pinned", choices.pinned);
}

template <typename V, Either<Bfloat16Speed> T>
void describe(V& v, T& speed) {
  v.field("work", speed.work, spec::kRequired);
  v.field("verdict", speed.verdict, spec::kRequired);
  v.field("ratio", speed.ratio);
  v.field("low", speed.low);
  v.field("high", speed.high);
  text_or_nothing(v, "reason", speed.reason);
  v.others(speed.others);
}

template <typename V, Either<Effective> T>
void describe(V& v, T& effective) {
  describe_choices(v, effective);
  text_or_nothing(v, "overlap_off", effective.overlap_off);
  v.field("replicated", effective.replicated, kOmitted);
  v.field("staged", effective.staged, kOmitted);
  v.field("one_collective", effective.one_collective, kOmitted);
  text_or_nothing(v, "convolution", effective.convolution);
  v.field("convolution_why", effective.convolution_why, kOmitted);
  v.field("decoding_threads", effective.decoding_threads, kOmitted);
  v.structure("bfloat16_speed", effective.bfloat16_speed, kOmitted);
  text_or_nothing(v, "collectives_by", effective.collectives_by);
  v.field("variables", effective.variables, kOmitted);
  v.others(effective.others);
}

template <typename V, Either<Requested> T>
void describe(V& v, T& requested) {
  describe_choices(v, requested);
  v.field("bucket_mb", requested.bucket_mb);
  v.any("checkpoint_every", requested.checkpoint_every, {});
  text_or_nothing(v, "convolution", requested.convolution);
  text(v, "profile", requested.profile);
  v.field("timeline", requested.timeline);
  v.others(requested.others);
}

template <typename V, Either<Algorithm> T>
void describe(V& v, T& algorithm) {
  v.field("rule", algorithm.rule);
  v.field("coder", algorithm.coder);
  v.field("pattern", algorithm.pattern);
  v.free_table("options", algorithm.options);
  v.field("lr", algorithm.lr);
  v.free_table("schedule", algorithm.schedule);
  v.field("rates", algorithm.rates);
  v.field("tuned_trials", algorithm.tuned_trials, kOmitted);
  v.others(algorithm.others);
}

template <typename V, Either<Failure> T>
void describe(V& v, T& failure) {
  v.field("kind", failure.kind);
  v.field_or_null("rank", failure.rank, int64_t{-1});
  text(v, "host", failure.host);
  text(v, "operation", failure.operation);
  v.field_or_null("sequence", failure.sequence, int64_t{-1});
  v.field("message", failure.message);
  v.field("log_tail", failure.log_tail);
  v.others(failure.others);
}

template <typename V, Either<Segment> T>
void describe(V& v, T& segment) {
  v.field("index", segment.index);
  v.field("start_step", segment.start_step);
  text(v, "started_at", segment.started_at);
  text(v, "finished_at", segment.finished_at);
  v.field("lost_s", segment.lost_s);
  v.field("exit_codes", segment.exit_codes);
  v.structure("failure", segment.failure);
  v.field("steps", segment.steps);
  v.field("wall_s", segment.wall_s);
  v.field("train_s", segment.train_s);
  v.field("train_legacy_s", segment.train_legacy_s);
  v.others(segment.others);
}

template <typename V, Either<RankPlace> T>
void describe(V& v, T& place) {
  v.field("rank", place.rank);
  v.field("host", place.host);
  v.field("local_rank", place.local_rank);
  text(v, "cores", place.cores);
  v.field("gpu", place.gpu);
  v.others(place.others);
}

template <typename V, Either<Environment> T>
void describe(V& v, T& environment) {
  text_or_nothing(v, "version", environment.version);
  text_or_nothing(v, "git_describe", environment.git_describe);
  text_or_nothing(v, "build_id", environment.build_id);
  text_or_nothing(v, "build_type", environment.build_type);
  text_or_nothing(v, "compiler", environment.compiler);
  texts_by_name(v, "libraries", environment.libraries);
  text(v, "kernel", environment.kernel);
  text(v, "os", environment.os);
  text(v, "gpu_driver", environment.gpu_driver);
  v.others(environment.others);
}

template <typename V, Either<Allocation> T>
void describe(V& v, T& allocation) {
  v.field("engine", allocation.engine);
  v.field("job", allocation.job);
  text(v, "partition", allocation.partition);
  v.others(allocation.others);
}

template <typename V, Either<NetworkCard> T>
void describe(V& v, T& card) {
  v.field("name", card.name);
  v.field("speed_mbit", card.speed_mbit);
  v.others(card.others);
}

template <typename V, Either<Gpu> T>
void describe(V& v, T& gpu) {
  v.field("name", gpu.name);
  v.others(gpu.others);
}

template <typename V, Either<Host> T>
void describe(V& v, T& host) {
  v.field("name", host.name);
  v.field("addresses", host.addresses);
  text(v, "cpu", host.cpu);
  v.field("cores", host.cores);
  v.field("ram_bytes", host.ram_bytes);
  text(v, "firmware", host.firmware);
  v.structures("nics", host.nics);
  v.structures("gpus", host.gpus);
  v.others(host.others);
}

template <typename V, Either<BadImage> T>
void describe(V& v, T& bad) {
  v.field("split", bad.split);
  v.field("sample", bad.sample);
  v.field("stand_in", bad.stand_in);
  v.field("image", bad.image);
  v.field("message", bad.message);
  v.others(bad.others);
}

template <typename V, Either<BadImages> T>
void describe(V& v, T& bad) {
  v.field("allowed", bad.allowed);
  v.field("count", bad.count);
  v.structures("first", bad.first);
  v.others(bad.others);
}

template <typename V, Either<DataSet> T>
void describe(V& v, T& data) {
  v.field("name", data.name);
  text(v, "fingerprint", data.fingerprint);
  v.field("official", data.official);
  v.field("synthetic", data.synthetic);
  v.field("fixed_batch", data.fixed_batch, kOmitted);
  v.any("samples", data.samples, {});
  text_or_nothing(v, "generator", data.generator);
  v.structure("bad_images", data.bad_images, kOmitted);
  v.others(data.others);
}

template <typename V, Either<Ring> T>
void describe(V& v, T& ring) {
  v.field("capacity", ring.capacity);
  v.field("takes", ring.takes);
  v.field("waits", ring.waits);
  v.field("mean_fill", ring.mean_fill);
  v.field("min_fill", ring.min_fill);
  v.others(ring.others);
}

template <typename V, Either<CheckedBytes> T>
void describe(V& v, T& checked) {
  v.field("bytes", checked.bytes);
  v.field("seconds", checked.seconds);
  v.others(checked.others);
}

template <typename V, Either<Checks> T>
void describe(V& v, T& checks) {
  v.structure("images", checks.images, kOmitted);
  v.structure("objects", checks.objects, kOmitted);
  v.structure("cache_blocks", checks.cache_blocks, kOmitted);
  v.structure("records", checks.records, kOmitted);
  v.others(checks.others);
}

template <typename V, Either<Storage> T>
void describe(V& v, T& storage) {
  v.field("kind", storage.kind);
  text(v, "data", storage.data);
  text(v, "run", storage.run);
  text(v, "endpoint", storage.endpoint);
  v.field("objects", storage.objects);
  v.field("bytes", storage.bytes);
  v.field("requests", storage.requests, kOmitted);
  v.field("retries", storage.retries, kOmitted);
  v.field("cache_hits", storage.cache_hits, kOmitted);
  v.field("cache_bytes", storage.cache_bytes, kOmitted);
  v.field("device_read_bytes", storage.device_read_bytes, kOmitted);
  v.field("call_read_bytes", storage.call_read_bytes, kOmitted);
  v.structure("checks", storage.checks, kOmitted);
  v.others(storage.others);
}

template <typename V, Either<Exchange> T>
void describe(V& v, T& exchange) {
  v.field("wait_s", exchange.wait_s);
  v.field("transfer_s", exchange.transfer_s);
  v.field("exposed_s", exchange.exposed_s, kOmitted);
  v.field("hidden_s", exchange.hidden_s, kOmitted);
  v.field("exact", exchange.exact);
  v.field("steps", exchange.steps);
  v.field("staleness", exchange.staleness, kOmitted);
  v.others(exchange.others);
}

template <typename V, Either<BestValue> T>
void describe(V& v, T& best) {
  v.field("value", best.value);
  v.field("epoch", best.epoch);
  v.field("step", best.step);
  v.field("train_s", best.train_s);
  v.others(best.others);
}

template <typename V, Either<Goal> T>
void describe(V& v, T& goal) {
  v.field("metric", goal.metric);
  v.field("split", goal.split);
  v.field("target", goal.target);
  v.field("higher_is_better", goal.higher_is_better, kOmitted);
  v.field("reached", goal.reached);
  v.field("value", goal.value);
  v.field("epoch", goal.epoch);
  v.field("step", goal.step);
  v.field("train_s", goal.train_s);
  v.structure("best", goal.best);
  v.field("target_loss", goal.target_loss, kOmitted);
  v.field("steps_s", goal.steps_s, kOmitted);
  v.structure("exchange", goal.exchange, kOmitted);
  v.others(goal.others);
}

template <typename V, Either<ClockSums> T>
void describe(V& v, T& clocks) {
  v.field("queue_s", clocks.queue_s);
  v.field("wall_s", clocks.wall_s);
  v.field("prepare_s", clocks.prepare_s);
  v.field("train_s", clocks.train_s);
  v.field("train_legacy_s", clocks.train_legacy_s);
  v.others(clocks.others);
}

template <typename V, Either<Throughput> T>
void describe(V& v, T& throughput) {
  v.field("samples_per_s", throughput.samples_per_s);
  v.field("median_samples_per_s", throughput.median_samples_per_s);
  v.field("peak_rss", throughput.peak_rss);
  v.field("samples", throughput.samples);
  v.field("steps", throughput.steps);
  v.others(throughput.others);
}

template <typename V, Either<Utilisation> T>
void describe(V& v, T& utilisation) {
  v.field("cpu", utilisation.cpu);
  v.field("gpu", utilisation.gpu);
  v.others(utilisation.others);
}

template <typename V, Either<HostEnergy> T>
void describe(V& v, T& energy) {
  v.field("host", energy.host);
  text(v, "meter", energy.meter);
  v.field("joules", energy.joules);
  v.others(energy.others);
}

template <typename V, Either<Energy> T>
void describe(V& v, T& energy) {
  v.field("joules", energy.joules);
  v.field("to_goal_joules", energy.to_goal_joules);
  v.structures("hosts", energy.hosts);
  v.others(energy.others);
}

template <typename V, Either<Evaluation> T>
void describe(V& v, T& evaluation) {
  v.field("step", evaluation.step);
  v.field("epoch", evaluation.epoch);
  v.field("samples", evaluation.samples);
  v.field("split", evaluation.split);
  v.field("cadence", evaluation.cadence, kOmitted);
  v.field("train_s", evaluation.train_s);
  v.field("elapsed_s", evaluation.elapsed_s, kOmitted);
  v.field("wall_s", evaluation.wall_s);
  v.field("metrics", evaluation.metrics);
  v.field("duration_s", evaluation.duration_s);
  v.field("segment", evaluation.segment);
  v.others(evaluation.others);
}

template <typename V, Either<Epoch> T>
void describe(V& v, T& epoch) {
  v.field("epoch", epoch.epoch);
  v.field("train_loss", epoch.train_loss);
  v.field("metrics", epoch.metrics);
  v.field("train_s", epoch.train_s);
  v.field("step", epoch.step);
  v.field("segment", epoch.segment);
  v.field("gradient_norm", epoch.gradient_norm, kOmitted);
  v.field("clipped_steps", epoch.clipped_steps, kOmitted);
  v.field("device_read_bytes", epoch.device_read_bytes, kOmitted);
  v.field("call_read_bytes", epoch.call_read_bytes, kOmitted);
  v.field("object_bytes", epoch.object_bytes, kOmitted);
  v.field("object_cache_bytes", epoch.object_cache_bytes, kOmitted);
  v.field("accelerator_utilisation", epoch.accelerator_utilisation, kOmitted);
  v.structure("ring", epoch.ring, kOmitted);
  v.others(epoch.others);
}

template <typename V, Either<OperationCost> T>
void describe(V& v, T& cost) {
  v.field("name", cost.name);
  v.field("implementation", cost.implementation);
  v.field("forward_s", cost.forward_s);
  v.field("backward_s", cost.backward_s);
  v.field("forward_floor_s", cost.forward_floor_s);
  v.field("backward_floor_s", cost.backward_floor_s);
  v.field("forward_flops", cost.forward_flops);
  v.field("backward_flops", cost.backward_flops);
  v.field("bytes", cost.bytes);
  v.others(cost.others);
}

template <typename V, Either<Declared> T>
void describe(V& v, T& declared) {
  v.field("task", declared.task);
  text(v, "rules", declared.rules);
  text(v, "variant", declared.variant);
  v.field("data", declared.data);
  v.field("goal", declared.goal);
  v.others(declared.others);
}

template <typename V, Either<Custom> T>
void describe(V& v, T& custom) {
  v.field("command", custom.command);
  v.structure("declared", custom.declared, kOmitted);
  text(v, "result", custom.result);
  v.others(custom.others);
}

template <typename V, Either<Record> T>
void describe(V& v, T& record) {
  v.field("schema_version", record.schema_version);
  v.field("id", record.id);
  v.field("name", record.name);
  v.field("created_at", record.created_at);
  text(v, "started_at", record.started_at);
  text(v, "finished_at", record.finished_at);
  v.field("executor", record.executor);
  v.field("repeat", record.repeat);
  v.field("task", record.task);
  text(v, "rules", record.rules);
  text(v, "variant", record.variant);
  v.field("division", record.division);
  v.structures("overrides", record.overrides);
  v.field("task_hash", record.task_hash);
  text(v, "problem_hash", record.problem_hash);
  v.structure("algorithm", record.algorithm);
  v.field("framework", record.framework);
  v.field("backend", record.backend);
  text(v, "comm_stack", record.comm_stack);
  v.structure("communication", record.communication);
  v.field("workers", record.workers);
  v.field("threads_per_worker", record.threads_per_worker);
  v.field("inter_op_threads", record.inter_op_threads);
  v.field("oversubscribed", record.oversubscribed);
  v.field("shared_host", record.shared_host);
  v.field("emulated_step_s", record.emulated_step_s);
  v.field("seed", record.seed);
  v.field_or_null("exit_codes", record.exit_codes, ExitCodes{});
  v.structure("limits", record.limits);
  v.field("notes", record.notes);
  v.field("state", record.state);
  text(v, "stop_reason", record.stop_reason);
  v.structure("requested", record.requested);
  v.structure("effective", record.effective);
  v.structure("failure", record.failure);
  v.structures("segments", record.segments);
  v.structure("environment", record.environment);
  v.free_table("engine", record.engine);
  v.structures("placement", record.placement);
  v.structure("allocation", record.allocation);
  v.structures("hosts", record.hosts);
  v.structure("data", record.data);
  v.structure("storage", record.storage);
  v.structure("goal", record.goal);
  v.structure("clocks", record.clocks);
  v.field("steps_s", record.steps_s);
  v.field("waited_for_data_s", record.waited_for_data_s);
  v.structure("ring", record.ring);
  v.structure("exchange", record.exchange);
  v.structure("throughput", record.throughput);
  v.structure("utilisation", record.utilisation);
  v.structure("energy", record.energy);
  v.structures("evaluations", record.evaluations);
  v.structures("epochs", record.epochs);
  v.structures("operations", record.operations);
  v.field("parameters", record.parameters);
  text(v, "weights_sha256", record.weights_sha256);
  v.structure("collectives", record.collectives);
  v.structure("custom", record.custom);
  v.others(record.others);
}

inline constexpr std::array kStateNames = {name_of(RunState::kQueued), name_of(RunState::kRunning),
                                           name_of(RunState::kFinished), name_of(RunState::kFailed),
                                           name_of(RunState::kStopped)};

template <typename V, Either<RunProgress> T>
void describe(V& v, T& progress) {
  std::string state(name_of(progress.state));
  v.field("state", state, {.required = true, .choices = kStateNames});
  if constexpr (!std::is_const_v<T>) {
    progress.state = static_cast<RunState>(std::ranges::find(kStateNames, state) - kStateNames.begin());
  }
  v.field("started_at", progress.started_at);
  v.field("finished_at", progress.finished_at);
  v.structures("segments", progress.segments);
  v.structure("failure", progress.failure);
  v.free_list("placement", progress.placement);
  v.free_table("allocation", progress.allocation);
  v.free_list("hosts", progress.hosts);
  v.free_table("environment", progress.environment);
  v.field("notes", progress.notes);
  v.field("queue_s", progress.queue_s);
  v.field("wall_s", progress.wall_s);
  v.field("oversubscribed", progress.oversubscribed);
  v.free_table("utilisation", progress.utilisation);
  v.free_table("energy", progress.energy);
}

}  // namespace mlbench::record
