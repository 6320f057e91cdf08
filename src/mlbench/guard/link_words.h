#pragma once

// The words of a link (net/link/) as messages of a channel, for both ends of the channel.

#include "mlbench/guard/channel.h"
#include "mlbench/net/link/link.h"

namespace mlbench::guard {

// Takes the next word of a link as `message`: `take` is the link's receive().
template <typename Take>
Channel::Status receive_from(Take take, Message& message) {
  net::LinkWord word;
  switch (take(word)) {
    case net::LinkStatus::kNothing:
      return Channel::Status::kNothing;
    case net::LinkStatus::kLost:
      return Channel::Status::kClosed;
    case net::LinkStatus::kWord:
      break;
  }
  message = {std::move(word.word), std::move(word.text), {}};
  return Channel::Status::kMessage;
}

}  // namespace mlbench::guard
