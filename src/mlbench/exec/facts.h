#pragma once

namespace mlbench::exec {

// What is true of an executor whatever its options are. Every executor takes GPUs, so that this is no fact here. One
// that did not would refuse LaunchRequest::gpu in describe(), which planning calls before any data are prepared.
struct ExecutorFacts {
  // Whether the ranks take the cores of this host. Such runs take turns on this host (the core lock), and may be told
  // which cores they have. Other runs wait where their engine lets them wait.
  bool on_this_host = false;
  // Whether the executor can put runs that ask for it (--share-host) on one host, and keeps other runs from that host.
  bool shares_hosts = false;
  // Whether ranks see the files of an image, and not those of this host. Data sets then lie at kImageData in the image,
  // and what ranks prepare from them goes to kImageCache (executor.h).
  bool in_images = false;
};

}  // namespace mlbench::exec
