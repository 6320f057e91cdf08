#pragma once

// How the steps of a run were fed with data, for people: what was read and from where, how full the ring of batches was
// that are decoded ahead, and what checksums cost. Internal to the details of a run (summary.h).

#include <optional>
#include <string>

#include "mlbench/record/record.h"
#include "mlbench/report/draw/section.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

// "emulated step of 0.15 s, 93 % used; read from devices: 1.2 GB, by calls: not known"; with an object store ", from
// the store: 1.1 GB, from its cache: 0 B". "" for real steps.
std::string accelerator_words(const record::Record& record, const RunFigures& figures);

// "3 batches; empty for 1 of 300 steps; 2.87 ready in the mean, 0 at least"; "" without a ring.
std::string ring_words(const record::Record& record);

// "SHA-256 of images: 12 MB in 0.012 s; MD5 of objects: ..."; "" where nothing was compared.
std::string checks_words(const record::Record& record);

// A row for each epoch: utilisation and ring beside what was read. Empty unless images are decoded for each batch.
std::optional<Section> feed_section(const record::Record& record);

}  // namespace mlbench::report
