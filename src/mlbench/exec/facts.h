#pragma once

namespace mlbench::exec {

// What holds of an executor whatever it is told.
struct ExecutorFacts {
  // The ranks take the cores of this host: such runs take turns on it (the core lock), and may be told which cores they
  // have. Others wait where their engine lets them wait.
  bool on_this_host = false;
  // It can put runs that ask for it (--share-host) on one host, and keeps others from it.
  bool shares_hosts = false;
  // Ranks see the files of an image, and not those of this host: data sets lie at kImageData there, and what they
  // prepare goes to kImageCache (executor.h).
  bool in_images = false;
};

}  // namespace mlbench::exec
